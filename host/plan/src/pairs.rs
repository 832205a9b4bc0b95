//! The two sides of each pair.

use std::collections::BTreeMap;

use host_record::{FileId, Gap, Pair, PairAxis, PairObstacle, Precision, Unsupported};

use crate::axes::{Coordinates, Found};
use crate::cells::Cell;
use crate::{Plan, PlannedCase, PlannedPair};

/// Attribute of a device that one process at a time can use.
const EXCLUSIVE: &str = "exclusive";

impl Plan {
    /// Returns the pairs and the gaps, in the order of the first sides; `None` unless cases are measured in pairs.
    #[must_use]
    pub fn pairs(&self) -> Option<impl Iterator<Item = PlannedPair> + '_> {
        let pair = self.measure.pair.as_ref()?;
        let cells = || (0_u64..).zip(self.cells.iter().take(self.end.unwrap_or(usize::MAX)));
        let indices: BTreeMap<Cell, u64> = cells().map(|(index, cell)| (cell, index)).collect();
        let mut text = String::new();
        Some(cells().filter_map(move |(index, cell)| {
            let item = self.item(index, cell, &mut text);
            let PlannedCase::Case(first) = item else { return Some(PlannedPair::Gap(item)) };
            let (side, other) = self.other_side(cell, pair)?;
            // The second side comes with the first.
            let other_index = indices.get(&other).filter(|_| side == 0)?;
            match self.item(*other_index, other, &mut text) {
                PlannedCase::Case(second) => Some(PlannedPair::Pair([first, second])),
                PlannedCase::Gap { .. } => None,
            }
        }))
    }

    /// Returns the reason why a cell that can run cannot be measured in its pair, if there is one.
    pub(crate) fn pair_obstacle(&self, cell: Cell, own: (&Found, &FileId)) -> Option<Gap> {
        let pair = self.measure.pair.as_ref()?;
        let gap = |obstacle| Some(Gap::Unsupported(Unsupported::Pair { obstacle }));
        let Some((side, other)) = self.other_side(cell, pair) else {
            let (axis, sides) = (pair.axis.name().to_owned(), pair.sides.clone());
            return gap(PairObstacle::Alone { axis, sides });
        };
        let [coordinates, others] = [cell, other].map(|cell| self.values.coordinates(cell));
        let found = match self.runnable(&others) {
            Ok(found) => found,
            Err(reason) => {
                let (other, gap_text) = (pair.sides[1 - side].clone(), reason.to_string());
                return gap(PairObstacle::Other { other, gap: gap_text });
            }
        };
        let [one, two] = [own.0, found.0].map(|found| &found.device);
        let is_exclusive = |attributes: &BTreeMap<String, String>| {
            attributes.get(EXCLUSIVE).is_some_and(|it| it == "true")
        };
        if one.id == two.id && (is_exclusive(&one.attributes) || is_exclusive(&two.attributes)) {
            return gap(PairObstacle::Exclusive { device: one.id.clone() });
        }
        let of_host = |kind: &str| kind == "cpu";
        let memory_bytes = match (of_host(&one.kind), of_host(&two.kind)) {
            (true, true) => self.memory_bytes,
            (false, false) if one.id == two.id => one.memory_bytes,
            _ => None,
        };
        let needed_bytes = self
            .least_memory(&coordinates, own.1)
            .saturating_add(self.least_memory(&others, found.1));
        match memory_bytes {
            Some(memory_bytes) if needed_bytes > memory_bytes => {
                gap(PairObstacle::Memory { needed_bytes, memory_bytes })
            }
            _ => None,
        }
    }

    /// Returns the size of a cell's weights, inputs and outputs, as far as it is known.
    fn least_memory(&self, cell: &Coordinates<'_>, file: &FileId) -> u64 {
        let weights = self.models[cell.model].weights_bytes.get(file).copied().unwrap_or(0);
        let traffic = self.obstacles.traffic(cell.model, cell.precision, cell.extent());
        weights.saturating_add(traffic.map_or(0, |traffic| traffic.total()))
    }

    /// Returns the side of the pair that a cell is on, and the cell on the other side, which differs in nothing else. Two
    /// backends may have different devices, if each has one.
    fn other_side(&self, cell: Cell, pair: &Pair) -> Option<(usize, Cell)> {
        const MODEL: usize = 0;
        const PLACE: usize = 1;
        const PRECISION: usize = 2;
        let coordinates = self.values.coordinates(cell);
        let backend =
            |place: usize| &*self.backends[self.values.places()[place].backend].backend.id;
        let own = match pair.axis {
            PairAxis::Model => &*self.models[coordinates.model].id,
            PairAxis::Backend => backend(cell[PLACE] as usize),
            PairAxis::Precision => coordinates.precision.name(),
        };
        let side = pair.sides.iter().position(|name| name == own)?;
        let name = &*pair.sides[1 - side];
        let with = |axis: usize, value: usize| {
            let mut other = cell;
            other[axis] = u32::try_from(value).ok()?;
            self.cells.contains(&other).then_some((side, other))
        };
        match pair.axis {
            PairAxis::Model => with(MODEL, self.models.iter().position(|model| model.id == name)?),
            PairAxis::Precision => {
                let other = Precision::ALL.iter().position(|precision| precision.name() == name)?;
                with(PRECISION, other)
            }
            PairAxis::Backend => {
                let places = self.values.places();
                let of = |id: &str| -> Vec<usize> {
                    let of_backend = (0..places.len()).filter(|place| backend(*place) == id);
                    of_backend.filter(|place| with(PLACE, *place).is_some()).collect()
                };
                let (others, same) = (of(name), of(own));
                let device = &coordinates.place.device;
                let on_device = others.iter().find(|place| places[**place].device == *device);
                match (on_device, &others[..], &same[..]) {
                    (Some(place), ..) | (None, [place], [_]) => with(PLACE, *place),
                    _ => None,
                }
            }
        }
    }
}
