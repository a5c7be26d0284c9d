//! Which kept files go: the old ones, and the oldest beyond a size.

use std::time::Duration;

/// Older files go.
const OLD: Duration = Duration::from_secs(7 * 86_400);
/// Of the others the oldest, while they take more than this together.
const MOST_BYTES: u64 = 1 << 30;
/// A younger file stays in any case: somebody has just been told of it.
const YOUNG: Duration = Duration::from_secs(600);

/// What is known of a file of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Since it was written to, or a result named it, last.
    pub age: Duration,
    /// Its size.
    pub bytes: u64,
}

/// The places, in this list, of the files that are to go.
///
/// Those older than 7 days; then, oldest first, as many as leave at most 1 GiB; never one younger than
/// 10 minutes.
pub fn condemned(files: &[Found]) -> Vec<usize> {
    let (mut going, mut staying): (Vec<_>, Vec<_>) =
        (0..).zip(files).partition(|(_, file)| file.age > OLD);
    let mut bytes = staying
        .iter()
        .fold(0_u64, |sum, (_, file)| sum.saturating_add(file.bytes));
    staying.sort_by_key(|(_, file)| std::cmp::Reverse(file.age));
    for (place, file) in staying {
        if bytes <= MOST_BYTES || file.age < YOUNG {
            break;
        }
        bytes = bytes.saturating_sub(file.bytes);
        going.push((place, file));
    }
    going.into_iter().map(|(place, _)| place).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(minutes: u64, mib: u64) -> Found {
        Found {
            age: Duration::from_secs(minutes * 60),
            bytes: mib << 20,
        }
    }

    #[test]
    fn the_old_go_then_the_oldest_beyond_a_gibibyte() {
        let week = 7 * 24 * 60;
        assert_eq!(condemned(&[]), [0_usize; 0]);
        // A week to the minute is not more than a week.
        assert_eq!(condemned(&[found(week, 1), found(week + 1, 1)]), [1]);
        // 900 MiB stay as they are; of 1,200 the two oldest go.
        assert_eq!(
            condemned(&[found(20, 300), found(40, 300), found(30, 300)]),
            [0_usize; 0]
        );
        let many = [
            found(20, 400),
            found(50, 100),
            found(40, 100),
            found(30, 600),
        ];
        assert_eq!(condemned(&many), [1, 2]);
        // The young stay, whatever they take.
        assert_eq!(condemned(&[found(9, 3_000), found(11, 1)]), [1]);
        assert_eq!(condemned(&[found(9, 3_000), found(8, 1)]), [0_usize; 0]);
        // Those that are old anyway leave room for others.
        assert_eq!(condemned(&[found(week + 5, 900), found(60, 900)]), [0]);
    }

    proptest! {
        #[test]
        fn what_goes_is_old_or_too_much_and_never_young(
            files in prop::collection::vec((0_u64..16_000, 0_u64..700), 0..40),
        ) {
            let files: Vec<Found> =
                files.into_iter().map(|(minutes, mib)| found(minutes, mib)).collect();
            let going = condemned(&files);
            let goes = |place: usize| going.contains(&place);
            let unique: std::collections::BTreeSet<_> = going.iter().collect();
            prop_assert_eq!(unique.len(), going.len());
            let staying: Vec<&Found> = files
                .iter()
                .enumerate()
                .filter(|(place, _)| !goes(*place))
                .map(|(_, file)| file)
                .collect();
            let stay_bytes: u64 = staying.iter().map(|file| file.bytes).sum();
            prop_assert!(staying.iter().all(|file| file.age <= OLD));
            prop_assert!(stay_bytes <= MOST_BYTES || staying.iter().all(|file| file.age < YOUNG));
            let mut by_size: Vec<&Found> = going
                .iter()
                .map(|place| &files[*place])
                .filter(|file| file.age <= OLD)
                .collect();
            for file in &by_size {
                prop_assert!(file.age >= YOUNG);
                // No older one stays.
                prop_assert!(staying.iter().all(|other| other.age <= file.age));
            }
            // None went that could have stayed: with the youngest of them it is too much.
            by_size.sort_by_key(|file| file.age);
            if let Some(youngest) = by_size.first() {
                prop_assert!(stay_bytes + youngest.bytes > MOST_BYTES);
            }
        }
    }
}
