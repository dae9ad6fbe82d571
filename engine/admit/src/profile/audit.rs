//! A check of the tree's invariants, and its size.

use super::UseProfile;
use super::leaf::UNUSED;

impl<const N: usize> UseProfile<N> {
    /// Recomputes the sums that each node keeps of its children, and checks the order of all keys.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn audit(&self) -> Result<(), &'static str> {
        let (leaves, inners) = self.audit_node(self.root, self.height, (0, UNUSED))?;
        if leaves != self.leaves.len() || inners != self.inners.len() {
            return Err("a node of the profile is lost");
        }
        Ok(())
    }

    /// Checks the subtree of a node, whose keys must all lie in `range`. Returns its numbers of leaves and
    /// inner nodes.
    fn audit_node(&self, node: u32, height: usize, range: (u64, u64)) -> Result<(usize, usize), &'static str> {
        if height == 0 {
            return self.audit_leaf(node, range).map(|()| (1, 0));
        }
        let inner = self.inners.get(node);
        let len = inner.len();
        if !inner.is_well_formed() {
            return Err("an inner node of the profile is malformed");
        }
        let (mut leaves, mut inners) = (0, 1);
        for i in 0..len {
            let from = if i == 0 { range.0 } else { inner.key(i) };
            let to = if i + 1 < len { inner.key(i + 1) } else { range.1 };
            if from >= to || from < range.0 || to > range.1 {
                return Err("inner keys of the profile are out of order");
            }
            if !inner.agrees(i, &self.branch(0, inner.child(i), height - 1)) {
                return Err("an inner node of the profile says what its child does not");
            }
            let (l, n) = self.audit_node(inner.child(i), height - 1, (from, to))?;
            leaves += l;
            inners += n;
        }
        Ok((leaves, inners))
    }

    fn audit_leaf(&self, node: u32, range: (u64, u64)) -> Result<(), &'static str> {
        let leaf = self.leaves.get(node);
        if leaf.is_empty() && self.height > 0 {
            return Err("an empty leaf in the profile");
        }
        leaf.audit(range)
    }

    /// The number of boundaries.
    pub fn boundaries(&self) -> usize {
        self.steps().count()
    }

    /// Memory of the tree, bytes.
    pub fn bytes(&self) -> usize {
        self.leaves.bytes() + self.inners.bytes()
    }
}
