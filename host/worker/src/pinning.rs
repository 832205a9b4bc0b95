/*!
Binding the worker to processors and setting its priority, before the plugin is opened, so that all
its threads inherit both; and the settings in force, whether requested or not.

Memory is not bound: the kernel takes it from the node of the processor that touches it first, and
a worker whose processors are on one node touches it from there.
*/

use std::collections::BTreeMap;

use host_machine::{Machine, Place, process};
use host_record::{CaseSpec, Failure, Pin, Scheduling, list_of_processors};

/// Binds this process and sets its priority as the case wants it, and says what is in force.
///
/// # Errors
///
/// A failure that names the processors which are not there or may not be used, or the nice value that
/// it may not have.
pub(crate) fn pin(case: &CaseSpec, machine: &Machine) -> Result<Scheduling, Failure> {
    if !process::can_bind() && case.measure.pin != Pin::None {
        let detail = "this operating system does not let a program choose its processors";
        return Err(Failure::NotPinned { detail: detail.into() });
    }
    // Such a system accepts only a quality of service. Its effect is recorded with the policy.
    process::prefer_fast_processors();
    // Each client has the backend's threads at work at the same time.
    let clients = case.key.clients.unwrap_or(1);
    let threads = case.threads.map(|threads| threads.saturating_mul(clients));
    let requested = match &case.measure.pin {
        // Processors differ by what else they do, so both sides of a pair have to be on the same. Sides with as many threads
        // as they like are on all.
        Pin::None if case.measure.pair.is_some() && threads.is_some() && process::can_bind() => {
            automatic(machine, threads).ok()
        }
        Pin::None => None,
        Pin::Auto => Some(automatic(machine, threads)?),
        Pin::Processors(processors) => {
            allowed(machine, processors)?;
            Some(processors.clone())
        }
    };
    if let Some(processors) = &requested {
        process::bind(processors).map_err(|error| Failure::NotPinned {
            detail: format!("to the processors {}: {error}", list_of_processors(processors)),
        })?;
    }
    if let Some(nice) = case.measure.nice {
        process::set_nice(nice).map_err(|error| Failure::NotPrioritised {
            detail: format!(
                "`measure.nice` is {nice}: {error}; less than the host's own value needs the capability \
                 `CAP_SYS_NICE` or a limit that allows it (`ulimit -e`)"
            ),
        })?;
    }
    Ok(in_force(machine, requested.is_some()))
}

/// Refuses processors that this process may not use.
fn allowed(machine: &Machine, requested: &[u32]) -> Result<(), Failure> {
    // If the system does not list them, binding detects it.
    let Some(allowed) = machine.allowed_processors() else { return Ok(()) };
    let missing: Vec<u32> =
        requested.iter().copied().filter(|number| !allowed.contains(number)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::NotPinned {
        detail: format!(
            "`measure.pin` names the processors {}, and this process may use {}",
            list_of_processors(&missing),
            list_of_processors(&allowed)
        ),
    })
}

fn automatic(machine: &Machine, threads: Option<u32>) -> Result<Vec<u32>, Failure> {
    let not_reported = |what: &str| Failure::NotPinned {
        detail: format!("`measure.pin` is `auto`, and the system does not report {what}"),
    };
    let allowed =
        machine.allowed_processors().ok_or_else(|| not_reported("which processors there are"))?;
    let places = machine.places(&allowed).ok_or_else(|| not_reported("their cores"))?;
    Ok(choose(&places, threads))
}

/// Chooses as many processors as threads, each on a core of its own and all on one node; without a
/// number of threads, as many as a node has cores. One core is left to the host and the system if
/// possible: the first one, which takes most interrupts.
///
/// If a node does not have enough cores, cores of the others follow, and only then processors
/// that share a core.
fn choose(places: &[Place], threads: Option<u32>) -> Vec<u32> {
    let mut first_of_core: BTreeMap<(u32, (u64, u64)), u32> = BTreeMap::new();
    for place in places {
        let number = first_of_core.entry((place.node, place.core)).or_insert(place.number);
        *number = place.number.min(*number);
    }
    let mut cores: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for ((node, _), number) in first_of_core {
        cores.entry(node).or_default().push(number);
    }
    let everywhere: usize = cores.values().map(Vec::len).sum();
    let mut nodes: Vec<Vec<u32>> = cores.into_values().collect();
    for node in &mut nodes {
        // From the last core to the first.
        node.sort_unstable_by(|one, other| other.cmp(one));
    }
    // The node with the most cores; of equals the last, since the first node has the first core.
    nodes.sort_by_key(Vec::len);
    nodes.reverse();
    let count = match threads {
        Some(threads) => threads as usize,
        None => {
            let node = nodes.first().map_or(0, Vec::len);
            if node == everywhere && node > 1 { node - 1 } else { node }
        }
    };
    let mut chosen: Vec<u32> = nodes.into_iter().flatten().collect();
    let mut rest: Vec<u32> =
        places.iter().map(|place| place.number).filter(|number| !chosen.contains(number)).collect();
    rest.sort_unstable_by(|one, other| other.cmp(one));
    chosen.extend(rest);
    chosen.truncate(count);
    chosen.sort_unstable();
    chosen
}

/// Returns the settings in force.
fn in_force(machine: &Machine, pinned: bool) -> Scheduling {
    let processors = machine.allowed_processors();
    let nodes = machine.memory_nodes();
    let on_nodes = processors.as_ref().map(|processors| {
        let has_one = |list: &[u32]| processors.iter().any(|number| list.contains(number));
        let on: Vec<u32> =
            nodes.iter().filter(|(_, list)| has_one(list)).map(|(node, _)| *node).collect();
        list_of_processors(&on)
    });
    Scheduling {
        processors: processors.as_deref().map(list_of_processors),
        pinned,
        processor_nodes: on_nodes.filter(|nodes| !nodes.is_empty()),
        memory_nodes: machine.allowed_memory_nodes(),
        policy: process::policy().map(str::to_owned),
        nice: process::nice(),
    }
}

#[cfg(test)]
mod tests {
    use host_machine::fake::Files;

    use super::*;
    use crate::tests::case;
    use host_record::{Pair, PairAxis, Share};

    /// Returns the processors of cores of nodes: each entry is a node, with a list of cores.
    fn places(nodes: &[&[&[u32]]]) -> Vec<Place> {
        let mut places = Vec::new();
        for (node, cores) in nodes.iter().enumerate() {
            for (core, numbers) in cores.iter().enumerate() {
                places.extend(numbers.iter().map(|&number| Place {
                    number,
                    node: node as u32,
                    core: (node as u64, core as u64),
                }));
            }
        }
        places
    }

    #[test]
    fn threads_get_a_core_each_on_one_node() {
        let two = places(&[&[&[0, 4], &[1, 5]], &[&[2, 6], &[3, 7]]]);
        assert_eq!(choose(&two, Some(1)), [3]);
        assert_eq!(choose(&two, Some(2)), [2, 3]);
        assert_eq!(choose(&two, None), [2, 3], "a node, which leaves the other to the host");
        assert_eq!(choose(&two, Some(3)), [1, 2, 3], "a third core is on the other node");
        assert_eq!(choose(&two, Some(5)), [0, 1, 2, 3, 7], "the fifth has to share a core");
        assert_eq!(choose(&two, Some(99)), [0, 1, 2, 3, 4, 5, 6, 7]);
        let one = places(&[&[&[0], &[1]]]);
        assert_eq!(choose(&one, None), [1], "one core of the only node is left to the host");
        assert_eq!(choose(&one, Some(2)), [0, 1]);
        let single = places(&[&[&[0]]]);
        assert_eq!(choose(&single, None), [0]);
        let uneven = places(&[&[&[0], &[1], &[2]], &[&[3]]]);
        assert_eq!(choose(&uneven, Some(2)), [1, 2], "the larger node");
    }

    #[test]
    fn automatic_pinning_reads_the_topology_and_keeps_to_what_is_allowed() {
        let mut files = vec![
            (
                "proc/self/status".to_owned(),
                "Name:\tx\nCpus_allowed_list:\t1-3\nMems_allowed_list:\t0\n",
            ),
            ("sys/devices/system/node/node0/cpulist".to_owned(), "0-1\n"),
            ("sys/devices/system/node/node1/cpulist".to_owned(), "2-3\n"),
        ];
        for number in 0..4 {
            let topology = format!("sys/devices/system/cpu/cpu{number}/topology");
            let package = if number < 2 { "0" } else { "1" };
            files.push((format!("{topology}/physical_package_id"), package));
            files.push((format!("{topology}/core_id"), if number % 2 == 0 { "0" } else { "1" }));
        }
        let list: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let files = Files::new(&list);
        let all = files.machine();
        assert_eq!(automatic(&all, Some(2)), Ok(vec![2, 3]));
        assert_eq!(automatic(&all, Some(3)), Ok(vec![1, 2, 3]), "0 is not allowed");
        let scheduling = in_force(&all, false);
        assert_eq!(scheduling.processors.as_deref(), Some("1-3"));
        assert_eq!(scheduling.processor_nodes.as_deref(), Some("0-1"));
        assert_eq!(scheduling.memory_nodes.as_deref(), Some("0"));

        let without_cores = Files::new(&list[..1]);
        let failure = automatic(&without_cores.machine(), Some(1)).expect_err("no topology");
        assert_eq!(
            failure.to_string(),
            "cannot pin the worker: `measure.pin` is `auto`, and the system does not report their cores"
        );
    }

    #[test]
    fn processors_that_may_not_be_used_are_named() {
        let files = Files::new(&[("proc/self/status", "Cpus_allowed_list:\t0-1,4\n")]);
        let machine = files.machine();
        assert_eq!(allowed(&machine, &[0, 4]), Ok(()));
        assert_eq!(
            allowed(&machine, &[1, 2, 3, 9]).expect_err("not allowed").to_string(),
            "cannot pin the worker: `measure.pin` names the processors 2-3,9, and this process may use 0-1,4"
        );
    }

    /// In a separate thread, because the value applies to a thread. Everybody may go back.
    #[test]
    fn the_nice_value_is_set_and_recorded() {
        let mut case = case();
        case.measure.nice = Some(19);
        let thread = std::thread::spawn(move || pin(&case, &Machine::this()));
        let scheduling = thread.join().expect("the thread").expect("everybody may be nicer");
        assert_eq!(scheduling.nice, Some(19));
    }

    /// In a separate thread, because the processors of a thread are bound.
    #[test]
    fn both_sides_of_a_pair_are_on_the_same_processors() {
        let scheduling = |threads| {
            let mut case = case();
            case.threads = threads;
            case.measure.pair = Some(Pair {
                axis: PairAxis::Backend,
                sides: ["a", "b"].map(str::to_owned),
                level: Share::new(0.995).expect("a share"),
                half_width: Share::new(0.01).expect("a share"),
            });
            let thread = std::thread::spawn(move || pin(&case, &Machine::this()));
            thread.join().expect("the thread").expect("nothing was asked for")
        };
        let [one, other] = [scheduling(Some(1)), scheduling(Some(1))];
        assert!(one.pinned);
        assert_eq!(one.processors, other.processors);
        assert!(!scheduling(None).pinned, "as many threads as there are processors");
    }

    #[test]
    fn without_a_wish_nothing_is_bound_and_all_is_reported() {
        let scheduling = pin(&case(), &Machine::this()).expect("nothing to do");
        assert!(!scheduling.pinned);
        assert!(scheduling.processors.is_some() && scheduling.policy.is_some());
    }
}
