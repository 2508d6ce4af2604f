//! TCP events, compared with the kernel's numbers for the socket.

use rstest::rstest;

use crate::{
    accounts::compared,
    agreement::{self, up_to_three_times},
    harness::{Case, skipped},
};

fn case(name: &'static str, is_raw: bool) -> Case {
    let case = Case::new(name);
    if is_raw { case.by_file("/sys/kernel/btf/vmlinux") } else { case }
}

#[rstest]
#[case::by_types(false)]
#[case::without_types(true)]
fn answers_are_counted_with_their_time(#[case] is_raw: bool) {
    up_to_three_times(|| {
        let name = "tcp_asks";
        let Some(seen) = compared(case(name, is_raw), name, 3, 0) else { return };
        if !seen.has("sock_send_length") {
            return skipped(name, "this kernel does not say what is sent");
        }
        let (counts, fact) = (seen.request(1).counts, |name: &str| seen.book.fact(name));
        agreement::count(name, "answers", counts.net_response, (fact("answers"), fact("answers")));
        agreement::time(name, "answers", counts.net_response_ns, (fact("shortest"), fact("longest")), 0);
        agreement::count(name, "round trips", counts.net_round_trip_ns, (fact("least"), fact("most")));
        for number in 2..=3 {
            let counts = seen.request(number).counts;
            assert_eq!((counts.net_response, counts.net_response_ns), (0, 0), "asked in another request");
        }
        assert_eq!((seen.request(2).counts.net_send, seen.request(3).counts.net_recv), (1, 1));
    });
}

/// Retransmissions that failed do not count, though some kernels report them, too.
#[rstest]
#[case::by_types("tcp_loses", false)]
#[case::without_types("tcp_loses", true)]
#[case::but_not_what_could_not_be("tcp_is_cut_off", false)]
#[case::but_not_what_could_not_be_without_types("tcp_is_cut_off", true)]
fn what_is_sent_again_is_counted(#[case] name: &'static str, #[case] is_raw: bool) {
    up_to_three_times(|| {
        let Some(seen) = compared(case(name, is_raw), name, 1, 0) else { return };
        if !seen.has("sock_send_length") {
            return skipped(name, "this kernel does not say whose a socket is");
        }
        let again = seen.book.fact("retransmits");
        agreement::count_again(name, "retransmits", seen.request(1).counts.net_retransmit, (again, again));
        let others = seen.threads.iter().filter(|thread| thread.id != seen.request(1).thread);
        assert_eq!(others.map(|thread| thread.counts.net_retransmit).sum::<u64>(), 0, "nobody else lost any");
    });
}
