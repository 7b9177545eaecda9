//! Decisions of the dealer about streams whose connections fail, and those that are given up.

use super::{
    tests::{begun, dealer, due, first, ms, with_a_timeout},
    *,
};

#[test]
fn a_connection_that_dies_is_replaced_and_its_chunk_requested_again() {
    let mut dealer = dealer(2, 500, ChunkTimeout::Adaptive);
    dealer.begin(ms(0), None);
    dealer.set_length(300);
    due(&mut dealer, 0);
    dealer.failed(0, ms(100));
    assert_eq!(due(&mut dealer, 100), [(0, Some(0))], "without a gap");
    assert_eq!(dealer.given_up(), 0);
    assert_eq!(dealer.arrived(0, ms(200)), first(0));
}

#[test]
fn a_chunk_is_not_requested_again_while_another_stream_has_it() {
    let mut dealer = begun(2, 200);
    due(&mut dealer, 0);
    dealer.arrived(1, ms(100));
    assert_eq!(due(&mut dealer, 1000), [(1, Some(0))]);
    dealer.failed(0, ms(1050));
    assert_eq!(due(&mut dealer, 1050), []);
    dealer.failed(1, ms(1060));
    assert_eq!(due(&mut dealer, 1060), [(1, Some(0))]);
}

#[test]
fn a_stream_that_fails_three_times_is_given_up() {
    let mut dealer = begun(2, 500);
    due(&mut dealer, 0);
    for now in [10, 20, 30] {
        dealer.failed(1, ms(now));
        due(&mut dealer, now);
    }
    assert_eq!((dealer.given_up(), dealer.is_lost()), (1, false));
    for (now, expected) in [(40, 1), (50, 2), (60, 3), (70, 4)] {
        dealer.arrived(0, ms(now));
        assert_eq!(due(&mut dealer, now), [(0, Some(expected))], "the other one does all");
    }
    for now in [80, 90, 100] {
        dealer.failed(0, ms(now));
        due(&mut dealer, now);
    }
    assert!(dealer.is_lost() && dealer.wake().is_none());
    dealer.begin(ms(200), None);
    assert_eq!(due(&mut dealer, 200).len(), 2, "the next resource tries all of them again");
}

#[test]
fn an_answer_ends_a_series_of_failures() {
    let mut dealer = begun(1, 10_000);
    due(&mut dealer, 0);
    for round in 0..5 {
        for _ in 0..2 {
            dealer.failed(0, ms(round));
            due(&mut dealer, round);
        }
        dealer.arrived(0, ms(round));
        due(&mut dealer, round);
    }
    assert_eq!(dealer.given_up(), 0);
}

#[test]
fn the_last_stream_with_a_chunk_begins_anew_if_the_others_are_given_up() {
    let mut dealer = begun(2, 200);
    due(&mut dealer, 0);
    dealer.arrived(1, ms(100));
    // Stream 0 has timed out; stream 1 fails three times with its copy.
    due(&mut dealer, 1000);
    for now in [1010, 1020] {
        dealer.failed(1, ms(now));
        assert_eq!(due(&mut dealer, now), [(1, Some(0))]);
    }
    dealer.failed(1, ms(1030));
    assert_eq!(due(&mut dealer, 1030), [(0, None), (0, Some(0))]);
}

#[test]
fn a_stream_that_was_given_up_gets_no_chunk_that_times_out() {
    let mut dealer = begun(3, 300);
    due(&mut dealer, 0);
    for now in [10, 20, 30] {
        dealer.failed(2, ms(now));
        due(&mut dealer, now);
    }
    // Stream 0 has chunk 2 in its queue. With stream 1 it times out, so it begins anew, and then
    // has the chunk of stream 1 as well.
    assert_eq!((due(&mut dealer, 1000), dealer.given_up()), (vec![(0, None), (0, Some(0))], 1));
    assert_eq!(dealer.arrived(0, ms(1100)), first(0));
    assert_eq!(due(&mut dealer, 1100), [(0, Some(1))]);
    assert_eq!(dealer.arrived(0, ms(1200)), first(1));
    assert_eq!(due(&mut dealer, 1200), [(1, None), (0, Some(2))]);
    assert_eq!(dealer.arrived(0, ms(1300)), first(2));
    assert!(dealer.is_complete() && dealer.timeouts() == 2);
}

#[test]
fn a_free_stream_gets_the_chunk_of_one_that_is_given_up() {
    let mut dealer = begun(4, 400);
    due(&mut dealer, 0);
    dealer.arrived(2, ms(100));
    for now in [110, 120] {
        dealer.failed(3, ms(now));
        assert_eq!(due(&mut dealer, now), [(3, Some(3))]);
    }
    dealer.failed(3, ms(130));
    assert_eq!((due(&mut dealer, 130), dealer.given_up()), (vec![(2, Some(3))], 1), "the others are busy");
}

#[test]
fn the_chunk_of_a_stream_that_is_given_up_goes_to_the_shortest_queue() {
    let mut dealer = with_a_timeout(4);
    // Streams 0 and 2 have the chunk of stream 1 in their queues, so that one goes on.
    for now in [1010, 1020] {
        dealer.failed(1, ms(now));
        assert_eq!(due(&mut dealer, now), [(1, Some(6))]);
    }
    dealer.failed(1, ms(1030));
    assert_eq!((due(&mut dealer, 1030), dealer.given_up()), (vec![], 1), "the others are busy");
    assert_eq!(dealer.arrived(3, ms(1040)), first(5));
    assert_eq!(due(&mut dealer, 1040), [(3, Some(6))]);
    assert_eq!(dealer.arrived(2, ms(1050)), first(4));
    assert_eq!(due(&mut dealer, 1050), [(2, Some(1))]);
}

#[test]
fn a_queued_chunk_of_a_stream_that_is_given_up_is_not_dealt_again_if_another_has_it() {
    let mut dealer = with_a_timeout(3);
    dealer.failed(0, ms(1010));
    assert_eq!(due(&mut dealer, 1010), [(0, Some(0))]);
    // Stream 0 has chunk 1 in its queue, and so has stream 2. Stream 1 goes on waiting for it.
    dealer.failed(0, ms(1020));
    assert_eq!((due(&mut dealer, 1020), dealer.given_up()), (vec![], 1));
    assert_eq!(dealer.arrived(2, ms(1030)), first(3));
    assert_eq!(due(&mut dealer, 1030), [(2, Some(1))]);
    assert_eq!(dealer.arrived(2, ms(1040)), first(1));
    assert_eq!(due(&mut dealer, 1040), [(1, None), (1, Some(0)), (2, Some(4))]);
}
