//! Visiting the variants in turn, and what their times mean.

use anyhow::Result;

/// What is attached to the launch function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// The agent's programs.
    Ours,
    /// Programs that do nothing.
    Empty,
    /// A program that sends one event.
    Event,
    /// Nothing.
    Plain,
}

/// One way there; the way back is the reverse.
const ORDER: [Variant; 4] = [Variant::Ours, Variant::Empty, Variant::Event, Variant::Plain];

/// Nanoseconds per launch, by variant in [`ORDER`], of every round.
pub(super) struct Rounds(Vec<[f64; ORDER.len()]>);

/// A median and the quartiles around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

impl Rounds {
    /// Visits every variant there and back, `rounds` times; `visit` returns nanoseconds per launch.
    pub(super) fn measure(rounds: u32, mut visit: impl FnMut(Variant) -> Result<f64>) -> Result<Self> {
        let mut times = Vec::new();
        for _ in 0..rounds {
            let mut round = [0.0; ORDER.len()];
            for index in (0..ORDER.len()).chain((0..ORDER.len()).rev()) {
                round[index] += visit(ORDER[index])? / 2.0;
            }
            times.push(round);
        }
        Ok(Self(times))
    }

    /// The ratio of two variants' times, taken in each round.
    pub(super) fn ratio(&self, variant: Variant, to: Variant) -> Option<Spread> {
        let ratios = self.of(variant).zip(self.of(to)).map(|(variant, to)| variant / to);
        Spread::of(ratios.collect())
    }

    /// The shortest time of a variant.
    pub(super) fn best_ns(&self, variant: Variant) -> Option<f64> {
        self.of(variant).min_by(f64::total_cmp)
    }

    fn of(&self, variant: Variant) -> impl Iterator<Item = f64> {
        let index = ORDER.iter().position(|other| *other == variant);
        self.0.iter().filter_map(move |round| round.get(index?).copied())
    }
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |quarter: usize| values[last * quarter / 4];
        Some(Self { low: at(1), median: at(2), high: at(3) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_visited_there_and_back() {
        let mut visits = Vec::new();
        let rounds = Rounds::measure(1, |variant| {
            visits.push(variant);
            Ok(visits.len() as f64)
        })
        .unwrap();
        let (there, back) = visits.split_at(4);
        assert_eq!(there, ORDER);
        assert_eq!(back, ORDER.iter().rev().copied().collect::<Vec<_>>());
        for variant in ORDER {
            assert_eq!(rounds.best_ns(variant), Some(4.5), "a steady drift is the same for all");
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let rounds = Rounds(vec![[11.0, 10.0, 20.0, 1.0], [24.0, 20.0, 40.0, 2.0], [52.0, 40.0, 80.0, 4.0]]);
        let ratio = rounds.ratio(Variant::Ours, Variant::Empty).unwrap();
        assert_eq!(ratio, Spread { low: 1.1, median: 1.2, high: 1.2 });
        let ratio = rounds.ratio(Variant::Event, Variant::Empty).unwrap();
        assert_eq!(ratio, Spread { low: 2.0, median: 2.0, high: 2.0 });
        assert_eq!(rounds.best_ns(Variant::Ours), Some(11.0));
    }

    #[test]
    fn quartiles_are_between_the_extremes() {
        let spread = Spread::of(vec![5.0, 1.0, 3.0, 2.0, 4.0]).unwrap();
        assert_eq!(spread, Spread { low: 2.0, median: 3.0, high: 4.0 });
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
