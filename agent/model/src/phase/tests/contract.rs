//! The marker library depends on nothing, so it has the contract once more: both must say the same.

use guestscope_contract::{MARKER_ABI_VERSION, NAME_BYTES, Operation, TOKEN_CHILD_BITS, is_root_token};
use guestscope_marker::{edge, token};
use rstest::rstest;

#[rstest]
#[case(edge::Operation::Begin, Operation::Begin)]
#[case(edge::Operation::Request, Operation::Request)]
#[case(edge::Operation::End, Operation::End)]
#[case(edge::Operation::Leave, Operation::Leave)]
#[case(edge::Operation::Enter, Operation::Enter)]
#[case(edge::Operation::Context, Operation::Context)]
#[case(edge::Operation::Identity, Operation::Identity)]
#[case(edge::Operation::Mark, Operation::Mark)]
#[case(edge::Operation::Rename, Operation::Rename)]
#[case(edge::Operation::Tell, Operation::Tell)]
fn an_operation_is_the_same_number(#[case] theirs: edge::Operation, #[case] ours: Operation) {
    let head = edge::head(theirs, 0xabcd, 0x1234_5678);
    assert_eq!(Operation::from_number(head as u8), Some(ours));
    assert_eq!((head >> 8) as u8, MARKER_ABI_VERSION);
    assert_eq!(((head >> 16) as u16, (head >> 32) as u32), (0xabcd, 0x1234_5678));
}

#[test]
fn a_root_is_a_root_on_both_sides() {
    assert_eq!((TOKEN_CHILD_BITS, NAME_BYTES), (token::CHILD_BITS, edge::NAME_BYTES_READ));
    for (thread, root, child) in
        [(1, 1, 0), (1, 1, 1), (0xf_ffff, 0, 0), (1, 0x3ff_ffff, 0x3_ffff), (0, 0, 0)]
    {
        let token = token::pack(thread, root, child);
        assert_eq!(is_root_token(token), token::is_root(token), "{token:#x}");
    }
}
