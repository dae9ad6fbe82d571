//! The parts of a resource by their binding: two parts whose windows meet cannot have the same packets.

use super::reservation::Place;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::book::Binding;

/// The parts of live reservations that are bound.
#[derive(Clone, Default)]
pub(crate) struct Bound(BTreeMap<(u32, Binding), Vec<Place>>);

impl Bound {
    pub(super) fn insert(&mut self, resource: u32, binding: &Binding, place: Place) {
        self.0.entry((resource, binding.clone())).or_default().push(place);
    }

    pub(super) fn remove(&mut self, resource: u32, binding: &Binding, place: Place) {
        let key = (resource, binding.clone());
        if let Some(places) = self.0.get_mut(&key) {
            places.retain(|other| *other != place);
            if places.is_empty() {
                self.0.remove(&key);
            }
        }
    }

    /// The parts of a resource with this binding.
    pub(super) fn get(&self, resource: u32, binding: &Binding) -> &[Place] {
        self.0.get(&(resource, binding.clone())).map(Vec::as_slice).unwrap_or_default()
    }
}
