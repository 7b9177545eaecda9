//! The demultiplexer of `mpeg2ts-reader`. Its macro makes a public type of private ones.

#![expect(unreachable_pub, reason = "as the macro wants it")]

use mpeg2ts_reader::{demultiplex, pes, psi};

mpeg2ts_reader::packet_filter_switch! {
    Switch<Context> {
        Pat: demultiplex::PatPacketFilter<Context>,
        Pmt: demultiplex::PmtPacketFilter<Context>,
        Pes: pes::PesPacketFilter<Context, Consumer>,
        Null: demultiplex::NullPacketFilter<Context>,
    }
}

/// The results of a demultiplexed stream.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) continuity_errors: usize,
    pub(super) pes: usize,
}

pub struct Context {
    changeset: demultiplex::FilterChangeset<Switch>,
    seen: Seen,
}

impl demultiplex::DemuxContext for Context {
    type F = Switch;

    fn filter_changeset(&mut self) -> &mut demultiplex::FilterChangeset<Switch> {
        &mut self.changeset
    }

    fn construct(&mut self, request: demultiplex::FilterRequest<'_, '_>) -> Switch {
        match request {
            demultiplex::FilterRequest::ByPid(psi::pat::PAT_PID) => {
                Switch::Pat(demultiplex::PatPacketFilter::default())
            }
            demultiplex::FilterRequest::Pmt { pid, program_number } => {
                Switch::Pmt(demultiplex::PmtPacketFilter::new(pid, program_number))
            }
            demultiplex::FilterRequest::ByStream { .. } => Switch::Pes(pes::PesPacketFilter::new(Consumer)),
            _ => Switch::Null(demultiplex::NullPacketFilter::default()),
        }
    }
}

pub struct Consumer;

impl pes::ElementaryStreamConsumer<Context> for Consumer {
    fn start_stream(&mut self, _: &mut Context) {}

    fn begin_packet(&mut self, context: &mut Context, header: pes::PesHeader<'_>) {
        let pes::PesContents::Parsed(Some(parsed)) = header.contents() else { panic!("no PES header") };
        assert!(parsed.pts_dts().is_ok());
        context.seen.pes += 1;
    }

    fn continue_packet(&mut self, _: &mut Context, _: &[u8]) {}

    fn end_packet(&mut self, _: &mut Context) {}

    fn continuity_error(&mut self, context: &mut Context) {
        context.seen.continuity_errors += 1;
    }
}

/// Demultiplexes a stream.
pub(super) fn read(stream: &[u8]) -> Seen {
    let changeset = demultiplex::FilterChangeset::default();
    let mut context = Context { changeset, seen: Seen::default() };
    let mut demux = demultiplex::Demultiplex::new(&mut context);
    demux.push(&mut context, stream);
    context.seen
}
