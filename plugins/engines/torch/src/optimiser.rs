/*!
Optimisers: one fused function of libtorch for all weights of a kind, as PyTorch's own with `fused=True`.

The crate `tch` has the optimisers of the C++ library, which take each weight alone: on a graphics processor thousands
of small kernels for each step. The fused ones also take the flag by which a step is left out if its gradients are not
finite, so that loss scaling never waits for the device.
*/

use tch::{Device, Kind, Tensor};

use crate::error::Wrong;
use crate::native::{self, Update};

/// How weights follow from gradients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rule {
    /// Stochastic gradient descent.
    Sgd {
        momentum: f64,
    },
    Adam,
    AdamW,
}

/// A factor of the loss, by which small gradients of fp16 do not vanish.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum LossScale {
    Fixed(f64),
    /// From 65536: halved after gradients that are not finite, whose step is left out, and doubled after 2000 others.
    Dynamic,
}

/// The first scale of [`LossScale::Dynamic`], as in PyTorch.
const FIRST_SCALE: f64 = 65536.0;

/// Settings of an optimiser.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plan {
    pub(crate) rule: Rule,
    pub(crate) learning_rate: f64,
    pub(crate) weight_decay: f64,
    /// Steps over which the learning rate rises to its value in equal parts; 0 for none.
    pub(crate) warm_up_steps: u64,
    pub(crate) loss_scale: Option<LossScale>,
}

impl Plan {
    /// Returns the learning rate of a step, counted from 0.
    pub(crate) fn rate_of(&self, step: u64) -> f64 {
        match step + 1 < self.warm_up_steps {
            true => self.learning_rate * (step + 1) as f64 / self.warm_up_steps as f64,
            false => self.learning_rate,
        }
    }
}

/// Weights of one kind of numbers, with what the rule keeps for each.
struct Group {
    weights: Vec<Tensor>,
    /// Momenta, or means of gradients.
    first: Vec<Tensor>,
    /// Means of squared gradients.
    second: Vec<Tensor>,
    /// The number of steps, on the device.
    steps: Tensor,
}

/// Tensors of one number each, on the device.
struct Scaling {
    scale: Tensor,
    growth: Tensor,
    found_infinity: Tensor,
    is_dynamic: bool,
}

/// An optimiser with its state.
pub(crate) struct Optimiser {
    plan: Plan,
    groups: Vec<Group>,
    scaling: Option<Scaling>,
    /// Steps that were made.
    made: u64,
}

impl Optimiser {
    pub(crate) fn new<'a>(
        plan: Plan,
        weights: impl Iterator<Item = &'a Tensor>,
        device: Device,
    ) -> Result<Self, Wrong> {
        let one = |value: f64, kind| Tensor::f_full([1], value, (kind, device));
        let mut groups: Vec<(Kind, Group)> = Vec::new();
        for weight in weights {
            let kind = weight.f_kind()?;
            let at = match groups.iter().position(|(other, _)| *other == kind) {
                Some(at) => at,
                None => {
                    let (weights, first, second) = (Vec::new(), Vec::new(), Vec::new());
                    // The fused functions take it as one number without axes.
                    let steps = one(0.0, Kind::Float)?.f_reshape([0_i64; 0])?;
                    groups.push((kind, Group { weights, first, second, steps }));
                    groups.len() - 1
                }
            };
            let group = &mut groups[at].1;
            group.weights.push(weight.shallow_clone());
            let zeros = || tch::no_grad(|| weight.f_detach()?.f_zeros_like());
            match plan.rule {
                Rule::Sgd { momentum: 0.0 } => {}
                Rule::Sgd { .. } => group.first.push(zeros()?),
                Rule::Adam | Rule::AdamW => {
                    group.first.push(zeros()?);
                    group.second.push(zeros()?);
                }
            }
        }
        let scaling = plan.loss_scale.map(|scale| {
            let (first, is_dynamic) = match scale {
                LossScale::Fixed(scale) => (scale, false),
                LossScale::Dynamic => (FIRST_SCALE, true),
            };
            Ok::<_, Wrong>(Scaling {
                scale: one(first, Kind::Float)?,
                growth: one(0.0, Kind::Int)?,
                found_infinity: one(0.0, Kind::Float)?,
                is_dynamic,
            })
        });
        let groups = groups.into_iter().map(|(_, group)| group).collect();
        Ok(Self { plan, groups, scaling: scaling.transpose()?, made: 0 })
    }

    /// Returns the loss as gradients are computed from it.
    pub(crate) fn scaled(&self, loss: &Tensor) -> Result<Tensor, Wrong> {
        Ok(match &self.scaling {
            None => loss.shallow_clone(),
            Some(scaling) => loss.f_mul(&scaling.scale.f_reshape([0_i64; 0])?)?,
        })
    }

    /// Returns all weights that have a gradient, with it.
    pub(crate) fn gradients(&self) -> Vec<Tensor> {
        let weights = self.groups.iter().flat_map(|group| &group.weights);
        weights.map(Tensor::grad).filter(Tensor::defined).collect()
    }

    /// Changes the weights. One without a gradient stays as it is.
    pub(crate) fn step(&mut self) -> Result<(), Wrong> {
        let rate = self.plan.rate_of(self.made);
        self.made += 1;
        if let Some(Scaling { scale, found_infinity, .. }) = &mut self.scaling {
            let _zero = tch::no_grad(|| found_infinity.f_zero_())?;
            let inverse = scale.f_reciprocal()?;
            for group in &self.groups {
                let gradients: Vec<Tensor> =
                    group.weights.iter().map(Tensor::grad).filter(Tensor::defined).collect();
                if !gradients.is_empty() {
                    native::unscale(&gradients, found_infinity, &inverse)?;
                }
            }
        }
        let found_infinity = self.scaling.as_ref().map(|scaling| &scaling.found_infinity);
        for group in &self.groups {
            let with_gradient: Vec<(usize, Tensor)> = (group.weights.iter().map(Tensor::grad))
                .enumerate()
                .filter(|(_, gradient)| gradient.defined())
                .collect();
            if with_gradient.is_empty() {
                continue;
            }
            let of = |all: &[Tensor]| -> Vec<Tensor> {
                let chosen = with_gradient.iter().filter_map(|(at, _)| all.get(*at));
                chosen.map(Tensor::shallow_clone).collect()
            };
            let (weights, first, second) =
                (of(&group.weights), of(&group.first), of(&group.second));
            let gradients: Vec<Tensor> =
                with_gradient.iter().map(|(_, gradient)| gradient.shallow_clone()).collect();
            let update = Update {
                weights: &weights,
                gradients: &gradients,
                rate,
                decay: self.plan.weight_decay,
                found_infinity,
            };
            match self.plan.rule {
                Rule::Sgd { momentum } => native::sgd(&update, &first, momentum)?,
                Rule::Adam => native::adam(&update, [&first, &second], &group.steps, false)?,
                Rule::AdamW => native::adam(&update, [&first, &second], &group.steps, true)?,
            }
        }
        if let Some(Scaling { scale, growth, found_infinity, is_dynamic: true }) = &self.scaling {
            native::update_scale(scale, growth, found_infinity)?;
        }
        Ok(())
    }

    /// Drops all gradients.
    pub(crate) fn zero(&self) -> Result<(), Wrong> {
        self.groups.iter().try_for_each(|group| native::forget_gradients(&group.weights))
    }

    /// Returns the bytes of the state.
    pub(crate) fn state_bytes(&self) -> u64 {
        let bytes = |tensors: &[Tensor]| -> u64 {
            let one = |tensor: &Tensor| (tensor.numel() * tensor.kind().elt_size_in_bytes()) as u64;
            tensors.iter().map(one).sum()
        };
        let of = |group: &Group| bytes(&group.first) + bytes(&group.second);
        self.groups.iter().map(of).sum()
    }

    /// Returns the scale of the loss.
    #[cfg(test)]
    pub(crate) fn loss_scale(&self) -> Option<f64> {
        self.scaling.as_ref().map(|scaling| scaling.scale.double_value(&[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rule: Rule) -> Plan {
        Plan { rule, learning_rate: 0.1, weight_decay: 0.01, warm_up_steps: 0, loss_scale: None }
    }

    fn numbers(tensor: &Tensor) -> Vec<f64> {
        Vec::<f64>::try_from(tensor.to_kind(Kind::Double)).expect("numbers")
    }

    /// Minimises the sum of the fourth powers; returns the weights after three steps.
    fn minimised(plan: Plan, kind: Kind) -> (Vec<f64>, Optimiser) {
        let start = Tensor::from_slice(&[1.0_f32, -2.0, 0.5]).to_kind(kind);
        let weight = start.set_requires_grad(true);
        let mut optimiser =
            Optimiser::new(plan, [&weight].into_iter(), Device::Cpu).expect("an optimiser");
        for _ in 0..3 {
            let loss = weight.pow_tensor_scalar(4).sum(kind);
            optimiser.scaled(&loss).expect("a loss").backward();
            optimiser.step().expect("a step");
            optimiser.zero().expect("no gradients");
        }
        (numbers(&weight.detach()), optimiser)
    }

    /// Computes the same with the formulas of the authors (Kingma and Ba 2015; Loshchilov and Hutter 2019).
    fn by_hand(plan: Plan) -> Vec<f64> {
        let one = |mut x: f64| {
            let (mut m, mut v) = (0.0, 0.0);
            for step in 0..3 {
                let (rate, decay) = (plan.rate_of(step), plan.weight_decay);
                let gradient = 4.0 * x.powi(3);
                match plan.rule {
                    Rule::Sgd { momentum } => {
                        m = momentum * m + gradient + decay * x;
                        x -= rate * m;
                    }
                    Rule::Adam | Rule::AdamW => {
                        let is_decoupled = plan.rule == Rule::AdamW;
                        let gradient = gradient + if is_decoupled { 0.0 } else { decay * x };
                        x -= if is_decoupled { rate * decay * x } else { 0.0 };
                        m = 0.9 * m + 0.1 * gradient;
                        v = 0.999 * v + 0.001 * gradient * gradient;
                        let count = step as i32 + 1;
                        let (mean, square) =
                            (m / (1.0 - 0.9_f64.powi(count)), v / (1.0 - 0.999_f64.powi(count)));
                        x -= rate * mean / (square.sqrt() + 1e-8);
                    }
                }
            }
            x
        };
        [1.0, -2.0, 0.5].map(one).to_vec()
    }

    #[test]
    fn weights_follow_the_formulas() {
        let rules =
            [Rule::Sgd { momentum: 0.0 }, Rule::Sgd { momentum: 0.9 }, Rule::Adam, Rule::AdamW];
        for rule in rules {
            for (warm_up_steps, learning_rate) in [(0, 0.01), (4, 0.02)] {
                let plan = Plan { warm_up_steps, learning_rate, ..plan(rule) };
                let expected = by_hand(plan);
                let (found, _) = minimised(plan, Kind::Float);
                let is_near = |(left, right): (&f64, &f64)| (left - right).abs() < 1e-5;
                assert!(
                    found.iter().zip(&expected).all(is_near),
                    "{plan:?}: {found:?} {expected:?}"
                );
            }
        }
    }

    #[test]
    fn the_rate_rises_in_equal_parts() {
        let plan = Plan { warm_up_steps: 4, ..plan(Rule::Adam) };
        let rates: Vec<f64> = (0..6).map(|step| plan.rate_of(step)).collect();
        assert_eq!(rates, [0.025, 0.05, 0.1 * 3.0 / 4.0, 0.1, 0.1, 0.1]);
        assert_eq!(Plan { warm_up_steps: 0, ..plan }.rate_of(0), 0.1);
    }

    #[test]
    fn a_scaled_loss_makes_the_same_step() {
        for rule in [Rule::Sgd { momentum: 0.9 }, Rule::AdamW] {
            let plain = Plan { learning_rate: 0.01, ..plan(rule) };
            let scaled = Plan { loss_scale: Some(LossScale::Fixed(1024.0)), ..plain };
            assert_eq!(minimised(plain, Kind::Float).0, minimised(scaled, Kind::Float).0);
        }
    }

    #[test]
    fn a_step_without_finite_gradients_is_left_out_and_halves_the_scale() {
        for rule in [Rule::Sgd { momentum: 0.9 }, Rule::Adam, Rule::AdamW] {
            let plan = Plan { loss_scale: Some(LossScale::Dynamic), ..plan(rule) };
            let weight = Tensor::from_slice(&[1.0_f32, 2.0]).set_requires_grad(true);
            let mut optimiser =
                Optimiser::new(plan, [&weight].into_iter(), Device::Cpu).expect("an optimiser");
            let step = |optimiser: &mut Optimiser, factor: f64| {
                let loss = (&weight * factor).sum(Kind::Float);
                optimiser.scaled(&loss).expect("a loss").backward();
                optimiser.step().expect("a step");
                optimiser.zero().expect("no gradients");
                (numbers(&weight.detach()), optimiser.loss_scale())
            };
            let (after, scale) = step(&mut optimiser, f64::INFINITY);
            assert_eq!((after, scale), (vec![1.0, 2.0], Some(32768.0)), "{rule:?}");
            let (after, scale) = step(&mut optimiser, 1.0);
            assert!(after[0] < 1.0 && after[1] < 2.0, "{rule:?}: {after:?}");
            assert_eq!(scale, Some(32768.0));
        }
    }

    #[test]
    fn a_weight_without_a_gradient_stays() {
        let weights = [
            Tensor::from_slice(&[1.0_f32]).set_requires_grad(true),
            Tensor::from_slice(&[1.0_f32]).set_requires_grad(true),
        ];
        let mut optimiser =
            Optimiser::new(plan(Rule::AdamW), weights.iter(), Device::Cpu).expect("an optimiser");
        weights[1].sum(Kind::Float).backward();
        optimiser.step().expect("a step");
        assert_eq!(numbers(&weights[0].detach()), [1.0]);
        assert!(numbers(&weights[1].detach())[0] < 1.0);
        assert_eq!((optimiser.gradients().len(), optimiser.state_bytes()), (1, 16));
    }
}
