//! Samples, interleaved rounds, and the rows of the table.

use std::fmt;

/// Measured values: seconds, or MB where a row says so.
#[derive(Debug, Default, Clone)]
pub struct Samples {
    values: Vec<f64>,
}

impl Samples {
    pub fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    pub fn extend(&mut self, other: &Self) {
        self.values.extend_from_slice(&other.values);
    }

    pub fn median(&self) -> f64 {
        self.at_percent(50)
    }

    pub fn p99(&self) -> f64 {
        self.at_percent(99)
    }

    fn at_percent(&self, percent: usize) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        let at = (last * percent).div_ceil(100);
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self {
            values: values.into_iter().collect(),
        }
    }
}

/// The same thing done by us and by the limit program, in turn.
#[derive(Debug, Default)]
pub struct Pair {
    pub ours: Samples,
    pub limit: Samples,
    ratios: Samples,
}

impl Pair {
    /// So many rounds; each gives samples of ours and of the limit.
    pub fn measure(rounds: usize, mut round: impl FnMut() -> (Samples, Samples)) -> Self {
        let mut pair = Self::default();
        for _ in 0..rounds {
            let (ours, limit) = round();
            pair.ratios.push(ours.median() / limit.median());
            pair.ours.extend(&ours);
            pair.limit.extend(&limit);
        }
        pair
    }

    /// The median of the rounds' ratios: what disturbs a round disturbs both sides.
    pub fn ratio(&self) -> f64 {
        self.ratios.median()
    }
}

/// How the values of a row are printed.
#[derive(Debug, Clone, Copy)]
pub enum Unit {
    Seconds,
    Megabytes,
    Times,
}

/// One line of the table.
#[derive(Debug)]
pub struct Row {
    what: String,
    unit: Unit,
    ours: Samples,
    limit: Option<Samples>,
    /// What is compared with the target.
    value: f64,
    value_unit: Unit,
    target: Option<f64>,
}

impl Row {
    /// Ours beside the limit program.
    pub fn ratio(what: &str, pair: Pair, target: impl Into<Option<f64>>) -> Self {
        Self {
            what: what.to_owned(),
            unit: Unit::Seconds,
            value: pair.ratio(),
            value_unit: Unit::Times,
            ours: pair.ours,
            limit: Some(pair.limit),
            target: target.into(),
        }
    }

    /// The medians of two rows of samples of ours.
    pub fn beside(what: &str, ours: Samples, other: Samples, target: f64) -> Self {
        Self {
            value: ours.median() / other.median(),
            value_unit: Unit::Times,
            limit: Some(other),
            ..Self::median(what, Unit::Seconds, ours, target)
        }
    }

    /// A median that has to be below a number.
    pub fn median(what: &str, unit: Unit, ours: Samples, target: f64) -> Self {
        Self {
            what: what.to_owned(),
            unit,
            value: ours.median(),
            value_unit: unit,
            ours,
            limit: None,
            target: Some(target),
        }
    }

    /// The 99th percentile has to be below a number.
    pub fn p99(what: &str, ours: Samples, target: f64) -> Self {
        Self {
            value: ours.p99(),
            ..Self::median(what, Unit::Seconds, ours, target)
        }
    }

    /// The 99th percentile in medians.
    pub fn spread(what: &str, ours: Samples, target: f64) -> Self {
        Self {
            value: ours.p99() / ours.median(),
            value_unit: Unit::Times,
            ..Self::median(what, Unit::Seconds, ours, target)
        }
    }

    pub fn is_over_twice(&self) -> bool {
        self.target.is_some_and(|target| self.value > 2.0 * target)
    }

    pub fn heading() -> String {
        line([
            "what",
            "ours",
            "p99",
            "limit",
            "p99",
            "value",
            "target",
            "2 x target",
            "",
        ])
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = |value: fn(&Samples) -> f64| {
            let limit = self.limit.as_ref();
            limit.map_or_else(|| "-".to_owned(), |limit| show(value(limit), self.unit))
        };
        let bound = |factor: f64| {
            let target = self.target.map(|target| target * factor);
            target.map_or_else(|| "-".to_owned(), |target| show(target, self.value_unit))
        };
        let verdict = match self.target {
            Some(target) if self.value > 2.0 * target => "OVER TWICE",
            Some(target) if self.value > target => "over",
            Some(_) => "ok",
            None => "",
        };
        f.write_str(&line([
            &self.what,
            &show(self.ours.median(), self.unit),
            &show(self.ours.p99(), self.unit),
            &limit(Samples::median),
            &limit(Samples::p99),
            &show(self.value, self.value_unit),
            &bound(1.0),
            &bound(2.0),
            verdict,
        ]))
    }
}

fn line(columns: [&str; 9]) -> String {
    let [what, numbers @ .., verdict] = columns;
    let numbers: Vec<String> = numbers.iter().map(|it| format!("{it:>10}")).collect();
    format!("{what:<46}{}  {verdict}", numbers.join(""))
}

fn show(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Times => format!("{value:.2}x"),
        Unit::Megabytes => format!("{value:.2} MB"),
        Unit::Seconds if value < 1e-3 => format!("{:.1} us", value * 1e6),
        Unit::Seconds if value < 1.0 => format!("{:.2} ms", value * 1e3),
        Unit::Seconds => format!("{value:.3} s"),
    }
}
