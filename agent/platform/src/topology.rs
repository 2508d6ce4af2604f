//! Position of each CPU: its core, its last level of cache, its memory node.
//!
//! Yields positions by CPU number, to measure how far a thread moved. If a guest hides its caches, each
//! package counts as one cache; if it hides everything, its CPUs share only the node.

use guestscope_contract::Position;

use super::{cores::CpuList, root::Root};

/// Directory of the CPUs.
const CPUS: &str = "/sys/devices/system/cpu";
/// Directory of the memory nodes.
const NODES: &str = "/sys/devices/system/node";
/// The kernel's own limit of CPUs.
const MOST_CPUS: u32 = 8_192;

/// The position of every possible CPU, by its number. A CPU that is not online yet has an empty folder: it
/// shares nothing until the agent is started again.
pub fn positions(root: &Root) -> Vec<Position> {
    let possible = root.value(&format!("{CPUS}/possible")).and_then(|text| CpuList::parse(&text));
    let count = possible.and_then(|list| list.last()).map_or(1, |last| last.min(MOST_CPUS - 1) + 1);
    let nodes = nodes(root);
    (0..count).map(|cpu| position(root, &nodes, cpu)).collect()
}

fn position(root: &Root, nodes: &[(u16, CpuList)], cpu: u32) -> Position {
    let first_of = |file: &str| {
        let text = root.value(&format!("{CPUS}/cpu{cpu}/{file}"))?;
        CpuList::parse(&text)?.first()
    };
    // The names of 5.3 and later, then the older ones.
    let core = first_of("topology/core_cpus_list").or_else(|| first_of("topology/thread_siblings_list"));
    let package =
        || first_of("topology/package_cpus_list").or_else(|| first_of("topology/core_siblings_list"));
    let cache = last_cache(root, cpu).and_then(|index| first_of(&format!("cache/{index}/shared_cpu_list")));
    let core = core.unwrap_or(cpu);
    let node = nodes.iter().find(|(_, cpus)| cpus.has(cpu)).map_or(0, |(node, _)| *node);
    Position { core: core as u16, cache: cache.or_else(package).unwrap_or(core) as u16, node, reserved: 0 }
}

/// Folder of the CPU's highest level of cache.
fn last_cache(root: &Root, cpu: u32) -> Option<String> {
    let folder = format!("{CPUS}/cpu{cpu}/cache");
    let level = |index: &String| root.value(&format!("{folder}/{index}/level"))?.parse::<u32>().ok();
    root.names(&folder).into_iter().filter(|index| level(index).is_some()).max_by_key(level)
}

/// Memory nodes with their CPUs.
fn nodes(root: &Root) -> Vec<(u16, CpuList)> {
    let node = |name: String| {
        let number: u16 = name.strip_prefix("node")?.parse().ok()?;
        Some((number, CpuList::parse(&root.value(&format!("{NODES}/{name}/cpulist"))?)?))
    };
    root.names(NODES).into_iter().filter_map(node).collect()
}

#[cfg(test)]
mod tests {
    use guestscope_contract::Distance;
    use rstest::rstest;

    use super::*;
    use crate::unpack;

    /// Two packages of two cores of two threads; each package is a node and has one cache.
    fn server() -> String {
        let cpus = (0..8_u32).map(|cpu| {
            let (core, package) = (cpu & !1, cpu & !3);
            let (core, package) = (format!("{core}-{}", core + 1), format!("{package}-{}", package + 3));
            let file = |name: &str, text: &str| format!("== file {CPUS}/cpu{cpu}/{name}\n{text}\n");
            [
                file("topology/core_cpus_list", &core),
                file("topology/package_cpus_list", &package),
                file("cache/index0/level", "1"),
                file("cache/index0/shared_cpu_list", &core),
                file("cache/index3/level", "3"),
                file("cache/index3/shared_cpu_list", &package),
            ]
            .concat()
        });
        let possible = format!("== file {CPUS}/possible\n0-7\n");
        let nodes = format!("== file {NODES}/node0/cpulist\n0-3\n== file {NODES}/node1/cpulist\n4-7\n");
        possible + &cpus.collect::<String>() + &nodes
    }

    /// The same with one node, no caches and the old names.
    fn hidden_caches() -> String {
        let tree: String = server().replace("core_cpus_list", "thread_siblings_list");
        let tree = tree.replace("package_cpus_list", "core_siblings_list").replace("/cache/", "/no/");
        tree.replace("/node", "/no")
    }

    fn read(tree: &str) -> Vec<Position> {
        positions(&Root::at(unpack(tree).path()))
    }

    #[rstest]
    #[case::a_server(&server(), [Distance::Smt, Distance::Cache, Distance::Remote])]
    #[case::hidden_caches(&hidden_caches(), [Distance::Smt, Distance::Cache, Distance::Node])]
    #[case::nothing_but_numbers(
        "== file /sys/devices/system/cpu/possible\n0-7\n",
        [Distance::Node, Distance::Node, Distance::Node]
    )]
    fn cpus_are_as_far_apart_as_the_guest_says(#[case] tree: &str, #[case] distances: [Distance; 3]) {
        let positions = read(tree);
        assert_eq!(positions.len(), 8);
        assert_eq!([1, 2, 4].map(|other| positions[0].distance(positions[other])), distances);
    }

    #[rstest]
    #[case::empty("")]
    #[case::no_number("== file /sys/devices/system/cpu/possible\nmany\n")]
    #[case::backwards("== file /sys/devices/system/cpu/possible\n7-0\n")]
    fn a_guest_that_says_nothing_has_one_cpu(#[case] tree: &str) {
        assert_eq!(read(tree), [Position::default()]);
    }

    #[test]
    fn the_running_guest_has_a_position_for_every_cpu() {
        let online = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        assert!(positions(&Root::system()).len() >= online);
    }
}
