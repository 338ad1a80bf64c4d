//! Changes to stacks: each turns one path tree into another.

use super::paths::Paths;
use super::site::{Site, SiteKind};
use super::{NodeId, Recursion, SiteId, Sites, Transform};
use prof_profile::{DsoId, FunctionId};

/// Where a path of the old tree is in the new one.
#[derive(Debug, Clone, Copy)]
struct MovedNode {
    node: NodeId,
    /// Whether `Focus` has met its function.
    inside: bool,
}

/// Applies `transform` to `paths`. Returns the new tree and for each old node
/// the new one, [`NodeId::NONE`] where the stack is left out.
pub(crate) fn apply(
    transform: Transform,
    paths: &Paths,
    sites: &mut Sites,
) -> (Paths, Vec<NodeId>) {
    let mut new = Paths::with_capacity(paths.len());
    let mut places: Vec<MovedNode> = Vec::with_capacity(paths.len());
    places.push(MovedNode {
        node: NodeId::ROOT,
        inside: false,
    });
    for index in 1..paths.len() {
        let parts = paths.get(NodeId(index as u32));
        let place = parts.and_then(|(parent, site)| {
            let at = places.get(parent.index()).copied()?;
            Some(step(transform, at, site, &mut new, sites))
        });
        places.push(place.unwrap_or(MovedNode {
            node: NodeId::NONE,
            inside: false,
        }));
    }
    let focusing = matches!(transform, Transform::Focus(_));
    let map = places
        .into_iter()
        .map(|place| match place {
            MovedNode { inside: false, .. } if focusing => NodeId::NONE,
            MovedNode { node, .. } => node,
        })
        .collect();
    (new, map)
}

fn step(
    transform: Transform,
    at: MovedNode,
    id: SiteId,
    new: &mut Paths,
    sites: &mut Sites,
) -> MovedNode {
    if at.node == NodeId::NONE {
        return at;
    }
    let site = *sites.get(id);
    let is = |function: FunctionId| site.kind != SiteKind::Dso && site.function == function;
    let node = match transform {
        Transform::Focus(function) => {
            let inside = at.inside || is(function);
            let node = if inside {
                new.push(at.node, id)
            } else {
                at.node
            };
            return MovedNode { node, inside };
        }
        Transform::Drop(function) if is(function) => NodeId::NONE,
        Transform::Merge(function) if is(function) => at.node,
        Transform::MergeDso(dso) if site.dso == dso => {
            let whole = sites.intern(Site {
                kind: SiteKind::Dso,
                function: first_function(sites, dso, site.function),
                host: first_function(sites, dso, site.function),
                dso,
                line: None,
                address: None,
                branch: None,
            });
            match new.get(at.node) {
                Some((_, last)) if last == whole => at.node,
                _ => new.push(at.node, whole),
            }
        }
        Transform::CollapseRecursion(recursion) => earlier_call(recursion, at.node, id, new, sites)
            .unwrap_or_else(|| new.push(at.node, id)),
        Transform::Drop(_) | Transform::Merge(_) | Transform::MergeDso(_) => new.push(at.node, id),
    };
    MovedNode { node, inside: true }
}

/// One function to stand for all of a dso: the first one seen.
fn first_function(sites: &Sites, dso: DsoId, fallback: FunctionId) -> FunctionId {
    sites
        .iter()
        .find(|site| site.dso == dso)
        .map_or(fallback, |site| site.function)
}

/// The call of the same function among the frames from `node` outwards.
fn earlier_call(
    recursion: Recursion,
    node: NodeId,
    id: SiteId,
    new: &Paths,
    sites: &Sites,
) -> Option<NodeId> {
    let site = sites.get(id);
    let mut at = node;
    while let Some((parent, other)) = new.get(at) {
        let other = sites.get(other);
        if other.function == site.function && other.kind == site.kind && other.dso == site.dso {
            return Some(at);
        }
        if recursion == Recursion::Direct {
            return None;
        }
        at = parent;
    }
    None
}
