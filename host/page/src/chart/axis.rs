//! Axes: conversion of values to pixels, and the values with a grid line and a number.

use super::place::{Plot, px};
use crate::{Scale, significant};
use maud::{Markup, html};

/// An axis, which converts values to pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    logarithmic: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Returns a logarithmic axis around values, with some room at both ends. The caller leaves out values that are
    /// not above zero.
    pub(crate) fn logarithmic(values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = bounds(values);
        // The ends differ by at least a fifth, so that nearly equal values are not magnified.
        let room = ((high / low).powf(0.06)).max(1.1);
        Self { logarithmic: true, low: low / room, high: high * room, from, to }
    }

    /// Returns a linear axis from zero.
    pub(crate) fn from_zero(values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Self {
        let (_, high) = bounds(values);
        Self { logarithmic: false, low: 0.0, high: high * 1.08, from, to }
    }

    /// Returns a linear axis around values, with some room at both ends.
    pub(crate) fn around(values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = bounds(values);
        // The ends differ by at least a thousandth, so that nearly equal values are not magnified.
        let room = ((high - low) * 0.08).max(high.abs() * 5e-4).max(f64::MIN_POSITIVE);
        Self { logarithmic: false, low: low - room, high: high + room, from, to }
    }

    /// Returns a linear axis between two values.
    pub(crate) fn between((low, high): (f64, f64), from: f64, to: f64) -> Self {
        Self { logarithmic: false, low, high, from, to }
    }

    /// Returns the lowest and the highest value.
    pub(crate) fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Returns the pixel of a value.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Returns round values along the axis, in a scale.
    fn ticks(&self, scale: &Scale<'_>) -> Vec<f64> {
        let unit = scale.apply(1.0);
        let (low, high) = (self.low * unit, self.high * unit);
        let ticks =
            if self.logarithmic { logarithmic_ticks(low, high) } else { linear_ticks(low, high) };
        ticks.into_iter().map(|tick| tick / unit).collect()
    }

    /// Returns grid lines and numbers of a vertical axis.
    pub(crate) fn rows(&self, plot: Plot, scale: &Scale<'_>, title: &str) -> Markup {
        html! {
            @for tick in self.ticks(scale) {
                @let y = px(self.at(tick));
                line.grid x1=(px(plot.left)) x2=(px(plot.right)) y1=(y) y2=(y) {}
                text.tick x=(px(plot.left - 8.0)) y=(y) dy="0.32em" text-anchor="end" {
                    (tick_label(scale.apply(tick)))
                }
            }
            text.axis x="0" y="12" { (title) }
        }
    }

    /// Returns grid lines and numbers of a horizontal axis.
    pub(crate) fn columns(&self, plot: Plot, scale: &Scale<'_>, title: &str) -> Markup {
        html! {
            @for tick in self.ticks(scale) {
                (column(plot, self.at(tick), &tick_label(scale.apply(tick))))
            }
            (column_title(plot, title))
        }
    }
}

/// Returns one grid line with its number.
pub(crate) fn column(plot: Plot, x: f64, label: &str) -> Markup {
    html! {
        line.grid x1=(px(x)) x2=(px(x)) y1=(px(plot.top)) y2=(px(plot.bottom)) {}
        text.tick x=(px(x)) y=(px(plot.bottom + 18.0)) text-anchor="middle" { (label) }
    }
}

pub(crate) fn column_title(plot: Plot, title: &str) -> Markup {
    html! {
        line.frame x1=(px(plot.left)) x2=(px(plot.right)) y1=(px(plot.bottom)) y2=(px(plot.bottom)) {}
        text.axis x=(px(plot.right)) y=(px(plot.bottom + 38.0)) text-anchor="end" { (title) }
    }
}

fn bounds(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

fn tick_label(value: f64) -> String {
    let text = significant(value, 3);
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the coarsest steps with at least four lines: decades; 1 and 3; 1, 2 and 5; all digits; or even steps if
/// the axis spans less.
fn logarithmic_ticks(low: f64, high: f64) -> Vec<f64> {
    const STEPS: [&[f64]; 3] = [&[1.0], &[1.0, 3.0], &[1.0, 2.0, 5.0]];
    for digits in STEPS {
        let mut ticks = Vec::new();
        let mut decade = low.log10().floor() as i32;
        while 10_f64.powi(decade) <= high {
            let values = digits.iter().map(|digit| digit * 10_f64.powi(decade));
            ticks.extend(values.filter(|tick| *tick >= low && *tick <= high));
            decade += 1;
        }
        if ticks.len() >= 4 {
            let every = ticks.len().div_ceil(9);
            return ticks.into_iter().step_by(every).collect();
        }
    }
    linear_ticks(low, high)
}

/// Returns multiples of 1, 2, 2.5 or 5 times a power of ten, about three to seven of them.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 6.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|digit| digit * power);
    let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(10.0 * power);
    let mut ticks = Vec::new();
    let mut count = (low / step).ceil();
    while count * step <= high && ticks.len() < 20 {
        ticks.push(count * step);
        count += 1.0;
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let labels =
            |ticks: Vec<f64>| ticks.into_iter().map(tick_label).collect::<Vec<_>>().join(" ");
        insta::assert_snapshot!(labels(logarithmic_ticks(0.01, 900.0)), @"0.01 0.1 1 10 100");
        insta::assert_snapshot!(labels(logarithmic_ticks(0.9, 60.0)), @"1 3 10 30");
        insta::assert_snapshot!(labels(logarithmic_ticks(105.0, 260.0)), @"150 200 250");
        insta::assert_snapshot!(labels(linear_ticks(0.0, 13_400.0)), @"0 2500 5000 7500 10 000 12 500");
    }

    #[test]
    fn an_axis_of_one_value_has_a_middle() {
        let axis = Axis::logarithmic([5.0, 5.0], 100.0, 0.0);
        assert!((axis.at(5.0) - 50.0).abs() < 1e-9);
        assert!(axis.ticks(&Scale::for_value("ns", 5.0)).len() >= 3);
    }
}
