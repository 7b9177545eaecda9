//! Decisions of the dealer, with a clock that the tests set. All times are in milliseconds.

use super::*;
use proptest::prelude::*;

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn dealer(streams: usize, gap: u64, timeout: ChunkTimeout) -> Dealer {
    Dealer::new(Settings { streams, chunk: 100, gap: ms(gap), timeout })
}

/// Begins a resource of a known length.
pub(super) fn begun(streams: usize, length: u64) -> Dealer {
    let mut dealer = dealer(streams, 0, ChunkTimeout::Fixed(ms(1000)));
    dealer.begin(ms(0), None);
    dealer.set_length(length);
    dealer
}

/// Returns the actions due at a time: `(stream, chunk)` for requests, `(stream, None)` for ends.
pub(super) fn due(dealer: &mut Dealer, now: u64) -> Vec<(usize, Option<u64>)> {
    let action = |command| match command {
        Command::Request { stream, chunk } => {
            assert!(chunk.first <= chunk.last, "no valid range: {chunk:?}");
            (stream, Some(chunk.number))
        }
        Command::Cancel { stream } => (stream, None),
    };
    std::iter::from_fn(|| dealer.command(ms(now))).map(action).collect()
}

pub(super) fn first(number: u64) -> Answer {
    Answer::First { number }
}

#[test]
fn chunks_are_dealt_in_order_to_the_stream_that_is_free() {
    let mut dealer = begun(2, 450);
    assert_eq!(due(&mut dealer, 0), [(0, Some(0)), (1, Some(1))]);
    assert_eq!(dealer.arrived(1, ms(50)), first(1));
    assert_eq!(due(&mut dealer, 50), [(1, Some(2))]);
    assert_eq!((dealer.in_order(), dealer.is_complete()), (0, false), "the first one is missing");
    assert_eq!(dealer.arrived(0, ms(60)), first(0));
    assert_eq!(dealer.in_order(), 2);
    assert_eq!(due(&mut dealer, 60), [(0, Some(3))]);
    dealer.arrived(1, ms(70));
    let last = dealer.command(ms(70)).unwrap();
    assert_eq!(last, Command::Request { stream: 1, chunk: Chunk { number: 4, first: 400, last: 449 } });
    dealer.arrived(0, ms(80));
    assert!(!dealer.is_complete());
    dealer.arrived(1, ms(90));
    assert!(dealer.is_complete() && dealer.in_order() == 5 && due(&mut dealer, 90).is_empty());
    assert_eq!(dealer.wake(), None);
}

#[test]
fn a_stream_waits_for_the_gap_after_a_chunk() {
    let mut dealer = dealer(1, 200, ChunkTimeout::Adaptive);
    dealer.begin(ms(0), None);
    dealer.set_length(300);
    assert_eq!(due(&mut dealer, 0), [(0, Some(0))]);
    assert_eq!(dealer.wake(), Some(ms(3000)), "the first timeout");
    dealer.arrived(0, ms(100));
    assert_eq!(due(&mut dealer, 299), []);
    assert_eq!(dealer.wake(), Some(ms(300)));
    assert_eq!(due(&mut dealer, 300), [(0, Some(1))]);
    // The gap holds from one resource to the next, too.
    dealer.arrived(0, ms(400));
    dealer.begin(ms(410), None);
    assert_eq!(due(&mut dealer, 599), []);
    assert_eq!(due(&mut dealer, 600), [(0, Some(0))]);
}

#[test]
fn before_the_length_is_known_each_stream_requests_one_chunk() {
    let mut dealer = dealer(3, 0, ChunkTimeout::Adaptive);
    dealer.begin(ms(0), None);
    assert_eq!(due(&mut dealer, 0).len(), 3);
    assert_eq!(dealer.arrived(0, ms(10)), first(0));
    assert_eq!(due(&mut dealer, 10), [], "there may be no fourth one");
    dealer.set_length(150);
    dealer.beyond_end(2, ms(20));
    assert_eq!((due(&mut dealer, 30), dealer.is_complete()), (vec![], false));
    dealer.arrived(1, ms(30));
    assert!(dealer.is_complete());
    // The next one is likely as long.
    dealer.begin(ms(50), Some(250));
    assert_eq!(due(&mut dealer, 50), [(0, Some(0)), (1, Some(1))]);
    dealer.begin(ms(60), Some(30));
    assert_eq!(due(&mut dealer, 60), [(0, None), (1, None), (0, Some(0))], "the old requests end");
}

/// Returns a dealer that has requested chunks 0 to 2 of a resource of two chunks, whose length was
/// not known. Chunk 0 has been requested again at 500 ms.
fn with_a_chunk_behind_the_end() -> Dealer {
    let mut dealer = dealer(3, 0, ChunkTimeout::Fixed(ms(1000)));
    dealer.begin(ms(0), None);
    assert_eq!(due(&mut dealer, 0), [(0, Some(0)), (1, Some(1)), (2, Some(2))]);
    dealer.failed(0, ms(500));
    assert_eq!(due(&mut dealer, 500), [(0, Some(0))]);
    dealer
}

#[test]
fn a_chunk_beyond_the_end_that_fails_is_not_requested_again() {
    let mut dealer = with_a_chunk_behind_the_end();
    dealer.set_length(150);
    dealer.failed(2, ms(600));
    assert_eq!(due(&mut dealer, 600), []);
    dealer.arrived(1, ms(700));
    dealer.arrived(0, ms(700));
    assert!(dealer.is_complete());
    // Without a length, a response tells where the resource cannot go on.
    let mut dealer = with_a_chunk_behind_the_end();
    dealer.beyond_end(1, ms(600));
    dealer.failed(2, ms(600));
    assert_eq!(due(&mut dealer, 600), []);
}

#[test]
fn a_chunk_beyond_the_end_that_times_out_is_cancelled() {
    let mut dealer = with_a_chunk_behind_the_end();
    dealer.set_length(150);
    assert_eq!(due(&mut dealer, 1000), [(2, None), (2, Some(1))], "chunk 1 has timed out, too");
    assert_eq!(dealer.timeouts(), 1, "a request beyond the end is no timeout");
}

#[test]
fn chunks_that_timed_out_leave_the_queues_when_the_length_is_known() {
    let mut dealer = with_a_chunk_behind_the_end();
    assert_eq!((due(&mut dealer, 1000), dealer.timeouts()), (vec![], 2), "stream 0 has both in its queue");
    dealer.set_length(150);
    assert_eq!(due(&mut dealer, 1010), [(2, None)], "its stream is free again");
    dealer.failed(2, ms(1020));
    dealer.arrived(0, ms(1100));
    assert_eq!(due(&mut dealer, 1100), [(0, Some(1))]);
    dealer.arrived(1, ms(1200));
    assert_eq!(due(&mut dealer, 1200), [(0, None)]);
    assert!(dealer.is_complete());
    // The same, if another response tells where the resource cannot go on.
    let mut dealer = with_a_chunk_behind_the_end();
    due(&mut dealer, 1000);
    dealer.beyond_end(1, ms(1050));
    dealer.arrived(0, ms(1100));
    assert_eq!(due(&mut dealer, 1100), [(2, None)]);
}

#[test]
fn nothing_is_requested_behind_the_end() {
    let mut dealer = dealer(3, 0, ChunkTimeout::Adaptive);
    dealer.begin(ms(0), None);
    due(&mut dealer, 0);
    dealer.beyond_end(1, ms(10));
    assert_eq!(due(&mut dealer, 10), [], "the end is at chunk 1 or before");
    dealer.beyond_end(2, ms(20));
    dealer.set_length(100);
    assert_eq!(dealer.arrived(0, ms(30)), first(0));
    assert!(dealer.is_complete());
    // An empty resource.
    dealer.begin(ms(40), Some(1));
    assert_eq!(due(&mut dealer, 40), [(0, Some(0))]);
    dealer.beyond_end(0, ms(50));
    assert_eq!((due(&mut dealer, 50), dealer.wake(), dealer.is_complete()), (vec![], None, false));
}

#[test]
fn a_stream_in_its_gap_does_not_request_behind_the_end() {
    let mut dealer = dealer(3, 500, ChunkTimeout::Adaptive);
    dealer.begin(ms(0), None);
    dealer.set_length(300);
    due(&mut dealer, 0);
    for (stream, now) in [(0, 0), (1, 10), (2, 100)] {
        dealer.arrived(stream, ms(now));
    }
    dealer.begin(ms(510), None);
    assert_eq!(due(&mut dealer, 510), [(0, Some(0)), (1, Some(1))]);
    dealer.beyond_end(1, ms(520));
    assert_eq!(due(&mut dealer, 600), [], "chunk 1 does not exist, so chunk 2 does not either");
}

#[test]
fn a_chunk_that_times_out_goes_to_the_head_of_two_other_queues() {
    let mut dealer = begun(4, 10_000);
    assert_eq!(due(&mut dealer, 0).len(), 4);
    for stream in [1, 2, 3] {
        dealer.arrived(stream, ms(500 + stream as u64));
        due(&mut dealer, 500 + stream as u64);
    }
    assert_eq!(dealer.wake(), Some(ms(1000)));
    assert_eq!(due(&mut dealer, 1000), [], "the others are busy");
    assert_eq!(dealer.timeouts(), 1);
    // The streams that have waited longest have it; the third one goes on with new chunks.
    dealer.arrived(3, ms(1100));
    assert_eq!(due(&mut dealer, 1100), [(3, Some(7))]);
    dealer.arrived(1, ms(1110));
    assert_eq!(due(&mut dealer, 1110), [(1, Some(0))]);
    // The first answer wins: the request that timed out and the queued copy end.
    assert_eq!(dealer.arrived(1, ms(1200)), first(0));
    assert_eq!(due(&mut dealer, 1200), [(0, None), (0, Some(8)), (1, Some(9))]);
    dealer.arrived(2, ms(1210));
    assert_eq!(due(&mut dealer, 1210), [(2, Some(10))], "no copy is left in the queue");
}

#[test]
fn both_copies_are_requested_and_the_slower_one_ends() {
    let mut dealer = begun(3, 300);
    due(&mut dealer, 0);
    dealer.arrived(1, ms(100));
    dealer.arrived(2, ms(110));
    assert_eq!(due(&mut dealer, 110), [], "all are dealt");
    assert_eq!(due(&mut dealer, 1000), [(1, Some(0)), (2, Some(0))], "free streams have it at once");
    assert_eq!(dealer.arrived(2, ms(1100)), first(0));
    assert!(dealer.is_complete());
    assert_eq!(due(&mut dealer, 1100), [(0, None), (1, None)]);
}

#[test]
fn an_answer_after_its_replacement_is_late() {
    let mut dealer = begun(2, 200);
    due(&mut dealer, 0);
    dealer.arrived(1, ms(100));
    assert_eq!(due(&mut dealer, 1000), [(1, Some(0))]);
    assert_eq!(dealer.arrived(1, ms(1100)), first(0));
    assert_eq!(dealer.arrived(0, ms(1100)), Answer::Late);
    assert_eq!((dealer.in_order(), dealer.is_complete()), (2, true));
    // An answer on a stream that was cancelled for the next resource is late as well.
    dealer.begin(ms(1200), None);
    assert_eq!(dealer.arrived(0, ms(1200)), Answer::Late);
    assert_eq!(dealer.in_order(), 0);
}

#[test]
fn the_request_that_timed_out_may_still_be_answered_first() {
    let mut dealer = begun(2, 200);
    due(&mut dealer, 0);
    dealer.arrived(1, ms(100));
    assert_eq!(due(&mut dealer, 1000), [(1, Some(0))]);
    assert_eq!(dealer.arrived(0, ms(1050)), first(0));
    assert_eq!(due(&mut dealer, 1050), [(1, None)]);
    assert!(dealer.is_complete());
}

#[test]
fn two_that_time_out_at_once_are_dealt_in_their_order() {
    let mut dealer = begun(4, 400);
    due(&mut dealer, 0);
    dealer.arrived(2, ms(100));
    dealer.arrived(3, ms(100));
    assert_eq!(due(&mut dealer, 1000), [(2, Some(0)), (3, Some(0))]);
    assert_eq!(dealer.timeouts(), 2);
    assert_eq!(dealer.arrived(3, ms(1100)), first(0));
    // Chunk 1 waited in both queues behind it, and the request of stream 0 has not timed out.
    assert_eq!(due(&mut dealer, 1100), [(0, None), (2, None), (2, Some(1)), (3, Some(1))]);
    assert_eq!(dealer.arrived(2, ms(1150)), first(1));
    assert!(dealer.is_complete());
}

/// Returns a dealer with a timeout of chunk 1 on stream 1 at 1,000 ms. The chunk is queued on
/// streams 0 and 2. Stream 0 has requested chunk 0 again at 500 ms.
pub(super) fn with_a_timeout(streams: usize) -> Dealer {
    let mut dealer = begun(streams, 10_000);
    due(&mut dealer, 0);
    dealer.failed(0, ms(500));
    assert_eq!(due(&mut dealer, 500), [(0, Some(0))]);
    for stream in 2..streams {
        dealer.arrived(stream, ms(900 + stream as u64));
        due(&mut dealer, 900 + stream as u64);
    }
    assert_eq!(due(&mut dealer, 1000), []);
    dealer
}

#[test]
fn an_earlier_chunk_that_times_out_later_is_requested_first() {
    let mut dealer = with_a_timeout(4);
    assert_eq!((due(&mut dealer, 1500), dealer.timeouts()), (vec![], 2));
    dealer.arrived(2, ms(1600));
    assert_eq!(due(&mut dealer, 1600), [(2, Some(0))]);
    dealer.arrived(2, ms(1700));
    assert_eq!(due(&mut dealer, 1700), [(0, None), (0, Some(1)), (2, Some(1))]);
}

#[test]
fn a_chunk_that_times_out_goes_to_streams_with_the_shortest_queues() {
    let mut dealer = with_a_timeout(5);
    assert_eq!(due(&mut dealer, 1500), []);
    dealer.arrived(2, ms(1600));
    assert_eq!(due(&mut dealer, 1600), [(2, Some(1))], "its queue was not empty");
    dealer.arrived(4, ms(1610));
    assert_eq!(due(&mut dealer, 1610), [(4, Some(0))]);
}

#[test]
fn a_chunk_that_times_out_goes_to_free_streams_first() {
    let mut dealer = begun(4, 500);
    due(&mut dealer, 0);
    for (stream, now) in [(1, 100), (2, 500), (3, 600)] {
        dealer.arrived(stream, ms(now));
        due(&mut dealer, now);
    }
    assert_eq!(due(&mut dealer, 1000), [(2, Some(0)), (3, Some(0))], "stream 1 has chunk 4");
}

#[test]
fn chunks_in_the_queue_of_a_stream_that_is_given_up_are_not_lost() {
    let mut dealer = begun(2, 300);
    due(&mut dealer, 0);
    dealer.arrived(1, ms(100));
    assert_eq!(due(&mut dealer, 100), [(1, Some(2))]);
    assert_eq!(due(&mut dealer, 1000), [], "chunk 0 waits behind chunk 2");
    for now in [1010, 1020] {
        dealer.failed(1, ms(now));
        assert_eq!(due(&mut dealer, now), [(1, Some(0))]);
    }
    // Stream 1 has chunk 0, and chunk 2 in its queue.
    dealer.failed(1, ms(1030));
    assert_eq!((due(&mut dealer, 1030), dealer.given_up()), (vec![(0, None), (0, Some(0))], 1));
    assert_eq!(dealer.arrived(0, ms(1040)), first(0));
    assert_eq!(due(&mut dealer, 1040), [(0, Some(2))]);
    assert_eq!(dealer.arrived(0, ms(1050)), first(2));
    assert!(dealer.is_complete());
}

#[test]
fn timeouts_are_counted_for_each_stream() {
    let mut dealer = begun(2, 1000);
    due(&mut dealer, 0);
    dealer.arrived(1, ms(900));
    due(&mut dealer, 900);
    assert_eq!((due(&mut dealer, 1000), dealer.timeouts(), dealer.most_timeouts()), (vec![], 1, 1));
    dealer.arrived(0, ms(1100));
    due(&mut dealer, 1100);
    // Chunk 2 times out on stream 1, and stream 0 has it in its queue; then chunk 3 on stream 0.
    due(&mut dealer, 1900);
    due(&mut dealer, 2100);
    assert_eq!((dealer.timeouts(), dealer.most_timeouts()), (3, 2));
    dealer.begin(ms(2200), None);
    assert_eq!(dealer.most_timeouts(), 2, "in all resources");
}

#[test]
fn if_all_streams_time_out_one_begins_anew() {
    let mut dealer = begun(2, 200);
    due(&mut dealer, 0);
    // Stream 0 gets a new connection for its chunk, and then has that of stream 1.
    assert_eq!(due(&mut dealer, 1000), [(0, None), (0, Some(0))]);
    assert_eq!(dealer.arrived(0, ms(1100)), first(0));
    assert_eq!(due(&mut dealer, 1100), [(0, Some(1))]);
    assert_eq!(dealer.arrived(0, ms(1200)), first(1));
    assert_eq!(due(&mut dealer, 1200), [(1, None)]);
    assert!(dealer.is_complete());
}

#[test]
fn a_single_stream_requests_a_chunk_that_times_out_again() {
    let mut dealer = begun(1, 200);
    due(&mut dealer, 0);
    assert_eq!(due(&mut dealer, 1000), [(0, None), (0, Some(0))]);
    assert_eq!(due(&mut dealer, 2000), [(0, None), (0, Some(0))]);
    assert_eq!((dealer.arrived(0, ms(2100)), dealer.timeouts()), (first(0), 2));
}

#[test]
fn copies_that_time_out_too_go_further() {
    let mut dealer = begun(4, 400);
    due(&mut dealer, 0);
    for stream in [1, 2, 3] {
        dealer.arrived(stream, ms(100));
    }
    assert_eq!(due(&mut dealer, 1000), [(1, Some(0)), (2, Some(0))]);
    assert_eq!(due(&mut dealer, 2000), [(3, Some(0))], "the only stream that has not tried");
    assert_eq!(due(&mut dealer, 3000), [(3, None), (3, Some(0))], "then a new connection");
    assert_eq!(dealer.arrived(3, ms(3100)), first(0));
    assert_eq!(due(&mut dealer, 3100), [(0, None), (1, None), (2, None)]);
}

#[test]
fn events_of_streams_without_a_request_are_ignored() {
    let mut dealer = dealer(2, 0, ChunkTimeout::Adaptive);
    dealer.begin(ms(0), None);
    for stream in [0, 1, 2] {
        for now in [10, 20, 30] {
            dealer.failed(stream, ms(now));
            dealer.beyond_end(stream, ms(now));
            assert_eq!(dealer.arrived(stream, ms(now)), Answer::Late);
        }
    }
    assert_eq!((dealer.given_up(), dealer.is_lost(), dealer.in_order()), (0, false, 0));
    assert_eq!(due(&mut dealer, 30), [(0, Some(0)), (1, Some(1))]);
}

#[test]
fn there_is_at_least_one_stream_and_one_byte_in_a_chunk() {
    let settings = Settings { streams: 0, chunk: 0, gap: ms(0), timeout: ChunkTimeout::Adaptive };
    let mut dealer = Dealer::new(settings);
    dealer.begin(ms(0), Some(0));
    dealer.set_length(2);
    for number in [0, 1] {
        let chunk = Chunk { number, first: number, last: number };
        assert_eq!(dealer.command(ms(0)), Some(Command::Request { stream: 0, chunk }));
        assert_eq!((dealer.command(ms(0)), dealer.is_complete()), (None, false));
        assert_eq!(dealer.arrived(0, ms(0)), first(number));
    }
    assert!(dealer.is_complete());
}

#[test]
fn chunks_far_behind_a_missing_one_wait() {
    let mut dealer = begun(1, 100_000);
    let mut two = begun(2, 100_000);
    due(&mut dealer, 0);
    due(&mut two, 0);
    for chunk in 1..100 {
        two.arrived(1, ms(chunk));
        due(&mut two, chunk);
    }
    // 8 chunks for each of 2 streams, of which the first one is missing.
    assert_eq!(two.arrived.len(), 15);
    assert_eq!(two.arrived(0, ms(200)), first(0));
    assert_eq!(two.in_order(), 16);
    assert_eq!(due(&mut two, 200).len(), 2);
}

#[test]
fn the_timeout_of_a_request_is_that_of_its_start() {
    let mut dealer = dealer(1, 0, ChunkTimeout::Adaptive);
    dealer.begin(ms(0), None);
    dealer.set_length(1000);
    due(&mut dealer, 0);
    dealer.arrived(0, ms(2000));
    due(&mut dealer, 2000);
    assert_eq!(dealer.wake(), Some(ms(4600)), "1.3 × 2 s");
    due(&mut dealer, 4600);
    // The mean of 2 s and twice 2.6 s is 3.6 s.
    assert_eq!(dealer.wake(), Some(ms(4600 + 4680)));
}

proptest! {
    /// Whatever the connections do, each chunk wins exactly once, no stream has two requests, and
    /// the resource is completed as soon as streams answer again.
    #[test]
    fn every_chunk_arrives_once(
        streams in 1_usize..6,
        length in 1_u64..3000,
        gap in 0_u64..50,
        events in proptest::collection::vec((0_u8..10, 0_usize..6, 0_u64..900), 0..300),
    ) {
        let mut dealer = dealer(streams, gap, ChunkTimeout::Fixed(ms(1000)));
        dealer.begin(ms(0), None);
        let mut now = 0;
        let mut active = vec![None; streams];
        let mut won = BTreeSet::new();
        let mut answer = |dealer: &mut Dealer, active: &mut Vec<Option<u64>>, stream: usize, now: u64| {
            let Some(chunk) = active[stream].take() else { return Ok(()) };
            if chunk * 100 >= length {
                dealer.beyond_end(stream, ms(now));
                return Ok(());
            }
            dealer.set_length(length);
            if let Answer::First { number } = dealer.arrived(stream, ms(now)) {
                prop_assert_eq!(number, chunk);
                prop_assert!(won.insert(number), "{} won twice", number);
            }
            Ok(())
        };
        let obey = |dealer: &mut Dealer, active: &mut Vec<Option<u64>>, now: u64| {
            for (stream, chunk) in due(dealer, now) {
                prop_assert!(chunk.is_none() || active[stream].is_none(), "two requests");
                active[stream] = chunk;
            }
            Ok(())
        };
        for (kind, stream, wait) in events {
            now += wait;
            obey(&mut dealer, &mut active, now)?;
            if stream < streams && active[stream].is_some() {
                if kind == 0 {
                    active[stream] = None;
                    dealer.failed(stream, ms(now));
                } else if kind < 8 {
                    answer(&mut dealer, &mut active, stream, now)?;
                }
            }
            obey(&mut dealer, &mut active, now)?;
        }
        for _ in 0..1000 {
            if dealer.is_complete() || dealer.is_lost() {
                break;
            }
            now = dealer.wake().map_or(now, |at| now.max(u64::try_from(at.as_millis()).unwrap()));
            obey(&mut dealer, &mut active, now)?;
            for stream in 0..streams {
                answer(&mut dealer, &mut active, stream, now)?;
                obey(&mut dealer, &mut active, now)?;
            }
        }
        prop_assert!(dealer.is_complete() || dealer.is_lost(), "{:?}", dealer);
        if dealer.is_complete() {
            prop_assert_eq!(won.len() as u64, length.div_ceil(100));
        }
    }
}
