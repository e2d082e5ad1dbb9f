//! Fairness compared with a simple max-min computation, and conservation of bytes.

use proptest::prelude::*;

use super::*;

fn ports(n: usize, rate: f64) -> Vec<Port> {
    vec![port(rate, rate); n]
}

fn port(send_bytes_per_s: f64, receive_bytes_per_s: f64) -> Port {
    Port {
        send_bytes_per_s,
        receive_bytes_per_s,
        flow_bytes_per_s: f64::INFINITY,
        flow_window_bytes: f64::INFINITY,
        latency_s: 0.0,
    }
}

fn drain(network: &mut Network) -> Vec<(Nanos, u64)> {
    let mut done = Vec::new();
    while let Some(time) = network.next_done() {
        done.push((time, network.finish(time).unwrap()));
    }
    done
}

#[test]
fn marks_come_in_the_order_of_their_bytes_whatever_order_they_are_pushed_in() {
    let mut marks = bottleneck::Marks::default();
    let bytes = [30, 50, 40, 50, 10, 60, 60, 55, 70];
    for (sequence, &bytes) in (0..).zip(&bytes) {
        marks.push(Mark { bytes: f64::from(bytes), sequence, flow: 0 });
    }
    let mut expected: Vec<_> = bytes.into_iter().zip(0u64..).collect();
    expected.sort_unstable();
    for (bytes, sequence) in expected {
        assert_eq!(marks.peek().map(|mark| mark.sequence), Some(sequence));
        let mark = marks.pop().unwrap();
        assert_eq!((mark.bytes, mark.sequence), (f64::from(bytes), sequence));
    }
    assert!(marks.pop().is_none() && marks.is_empty());
}

#[test]
fn a_flow_alone_has_the_whole_link() {
    let mut network = Network::new(&ports(2, 1e8));
    network.start(0, 0, 1, 100_000_000, 7);
    assert_eq!(drain(&mut network), vec![(1_000_000_000, 7)]);
}

#[test]
fn one_sender_shares_equally_and_the_rest_speeds_up() {
    let mut network = Network::new(&ports(3, 1e8));
    network.start(0, 0, 1, 50_000_000, 1);
    network.start(0, 0, 2, 100_000_000, 2);
    assert_eq!(drain(&mut network), vec![(1_000_000_000, 1), (1_500_000_000, 2)]);
}

#[test]
fn what_one_cannot_take_the_others_get() {
    // Host 1 receives at 10 MB/s only; the sender's other flow gets the remaining 90 MB/s.
    let mut all = ports(3, 1e8);
    all[1].receive_bytes_per_s = 1e7;
    let mut network = Network::new(&all);
    network.start(0, 0, 1, 1_000_000_000, 1);
    network.start(0, 0, 2, 1_000_000_000, 2);
    assert!((network.rate(0, 1) - 1e7).abs() < 1.0 && (network.rate(0, 2) - 9e7).abs() < 1.0);
}

#[test]
fn a_flow_limit_holds() {
    let mut all = ports(2, 4e8);
    all[0].flow_bytes_per_s = 1e8;
    let mut network = Network::new(&all);
    (0..3).for_each(|tag| network.start(0, 0, 1, 100_000_000, tag));
    assert!((network.rate(0, 1) - 1e8).abs() < 1.0);
    (3..8).for_each(|tag| network.start(0, 0, 1, 100_000_000, tag));
    assert!((network.rate(0, 1) - 5e7).abs() < 1.0);
}

#[test]
fn a_window_limits_each_flow_to_its_bytes_per_round_trip() {
    // 1 MB in flight over 2 (24 + 1) ms: 20 MB/s, whichever end has the window or the latency.
    for far in 0..2 {
        for narrow in 0..2 {
            let mut all = ports(3, 1e9);
            (all[far].latency_s, all[1 - far].latency_s) = (0.024, 0.001);
            all[narrow].flow_window_bytes = 1e6;
            let mut network = Network::new(&all);
            network.start(0, 0, 1, 1_000_000_000, 1);
            network.start(0, 0, 1, 1_000_000_000, 2);
            assert!((network.rate(0, 1) - 2e7).abs() < 1.0, "{}", network.rate(0, 1));
            network.start(0, 2, 1, 1_000_000_000, 3);
            let near = if narrow == 1 { 1e6 / (2.0 * all[1].latency_s) } else { 1e9 };
            let expected = near.min(1e9 - 4e7);
            assert!((network.rate(2, 1) - expected).abs() < 1.0, "{}", network.rate(2, 1));
        }
    }
}

#[test]
fn hosts_of_a_leaf_share_its_uplink() {
    // Ten hosts at a leaf with 4:1 oversubscription, and a server at the core.
    let mut all = ports(11, 1e8);
    all[10].send_bytes_per_s = 1e10;
    let of_host = (0..10).map(|_| Some(0)).collect();
    let leaves = Leaves { of_host, uplink_bytes_per_s: vec![2.5e8] };
    let mut network = Network::with_leaves(&all, leaves);
    (0..10).for_each(|host| network.start(0, 10, host, 100_000_000, u64::from(host)));
    assert!((network.rate(10, 3) - 2.5e7).abs() < 1.0);
    // Within the leaf a flow has what its ports leave.
    network.start(0, 0, 1, 100_000_000, 99);
    assert!((network.rate(0, 1) - 7.5e7).abs() < 1.0);
    let (end, _) = *drain(&mut network).last().unwrap();
    assert!(end.abs_diff(4_000_000_000) < 100, "{end}");
}

#[test]
fn a_shared_server_stays_cheap() {
    let mut network = Network::new(&ports(1001, 1.25e9));
    let mut now = 0;
    for tag in 0..24_000u64 {
        network.start(now, 0, 1 + (tag % 1000) as u32, 1 << 20, tag);
    }
    let full = network.refills();
    for tag in 0..20_000u64 {
        now = network.next_done().unwrap();
        network.finish(now);
        network.start(now, 0, 1 + (tag * 7 % 1000) as u32, 1 << 20, tag);
    }
    assert!(network.refills() - full < 100, "{} refills", network.refills() - full);
}

/// The ports and uplinks of a flow. Leaf `l` has the uplink `hosts + l`.
fn sides_of(flow: (u32, u32), hosts: usize, leaves: &Leaves) -> Vec<usize> {
    let mut sides = vec![2 * flow.0 as usize, 2 * flow.1 as usize + 1];
    let (from, to) = (leaves.of(flow.0), leaves.of(flow.1));
    if from != to {
        sides.extend(from.map(|leaf| 2 * (hosts + leaf as usize)));
        sides.extend(to.map(|leaf| 2 * (hosts + leaf as usize) + 1));
    }
    sides
}

/// Progressive filling, one flow at a time.
fn plain(flows: &[(u32, u32)], capacity: &[(f64, f64)], leaves: &Leaves) -> Vec<f64> {
    let uplinks = leaves.uplink_bytes_per_s.iter().flat_map(|&rate| [rate, rate]);
    let mut left: Vec<f64> = capacity.iter().flat_map(|c| [c.0, c.1]).chain(uplinks).collect();
    let sides: Vec<_> = flows.iter().map(|&f| sides_of(f, capacity.len(), leaves)).collect();
    let mut rates = vec![0.0; flows.len()];
    let mut open: Vec<usize> = (0..flows.len()).collect();
    while !open.is_empty() {
        let mut count = vec![0.0; left.len()];
        for &f in &open {
            sides[f].iter().for_each(|&side| count[side] += 1.0);
        }
        let level = |side: usize| left[side] / count[side];
        let lowest = (0..left.len())
            .filter(|&s| count[s] > 0.0)
            .min_by(|&a, &b| level(a).total_cmp(&level(b)));
        let side = lowest.unwrap();
        let rate = level(side);
        let (fixed, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|&&f| sides[f].contains(&side));
        for f in fixed {
            rates[f] = rate;
            sides[f].iter().for_each(|&side| left[side] -= rate);
        }
        open = rest;
    }
    rates
}

proptest! {
    #[test]
    fn rates_are_max_min_fair_at_all_times(
        capacities in prop::collection::vec((1u32..20, 1u32..20), 2..6),
        steps in prop::collection::vec((0u32..6, 0u32..6, 1u64..1000, any::<bool>()), 1..60),
        of_host in prop::collection::vec(prop::option::of(0u32..3), 0..6),
        uplinks in prop::collection::vec(1u32..20, 3),
    ) {
        let n = capacities.len() as u32;
        let rates: Vec<_> = capacities
            .iter()
            .map(|c| (f64::from(c.0) * 1e6, f64::from(c.1) * 1e6))
            .collect();
        let ports: Vec<_> = rates.iter().map(|c| port(c.0, c.1)).collect();
        let uplink_bytes_per_s = uplinks.iter().map(|&rate| f64::from(rate) * 1e6).collect();
        let leaves = Leaves { of_host, uplink_bytes_per_s };
        let mut network = Network::with_leaves(&ports, leaves.clone());
        let mut live: Vec<(u64, u32, u32)> = Vec::new();
        let mut now = 0;
        for (tag, (from, to, kib, finish)) in steps.into_iter().enumerate() {
            let (from, to) = (from % n, to % n);
            if from != to {
                network.start(now, from, to, kib * 1024, tag as u64);
                live.push((tag as u64, from, to));
            }
            if finish {
                if let Some(time) = network.next_done() {
                    prop_assert!(time >= now);
                    now = time;
                    let done = network.finish(now).unwrap();
                    live.retain(|l| l.0 != done);
                }
            }
            let pairs: Vec<_> = live.iter().map(|l| (l.1, l.2)).collect();
            for ((_, from, to), expected) in live.iter().zip(plain(&pairs, &rates, &leaves)) {
                let got = network.rate(*from, *to);
                prop_assert!(
                    (got - expected).abs() < 1e-6 * expected,
                    "{} {}: {} not {}", from, to, got, expected
                );
            }
        }
        let rest = drain(&mut network).len();
        prop_assert_eq!(rest, live.len());
        prop_assert_eq!(network.in_flight(), 0);
    }
}
