"""Second cell: the variables of the first one are still there."""

from collections import Counter

Counter(words).most_common(2)
