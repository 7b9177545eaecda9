//! Samples of fragments: read along with the media, remembered beside the index.

use crate::{
    Error, observe::metrics::CacheWatch, read::fetch::Fetch, title::index::Object, title::memo::Memo,
    title::titles::LoadedTitle,
};
use bytes::Bytes;
use latemux_index::{
    locate::fragment_reader::{FragmentReader, FragmentStep},
    locate::limits::MOOF_READ,
    media::fragment_samples::{FragmentSamples, KnownFragments},
};
use latemux_packager::plan::SourceRange;
use std::{collections::BTreeMap, sync::Arc};

/// Remembered fragments by object and offset in it. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Fragments {
    memo: Memo<(u64, u64), Arc<FragmentSamples>>,
}

impl Fragments {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { memo: Memo::new(capacity, |_, samples: &Arc<FragmentSamples>| samples.heap_bytes()) }
    }

    /// What is remembered, for metrics. Nobody waits for another's fragment.
    pub(crate) fn watch(&self) -> CacheWatch {
        self.memo.watch("fragments", Arc::default())
    }

    /// The fragments of a title, as planning asks for them.
    pub(crate) fn of<'a>(&'a self, loaded: &'a LoadedTitle) -> Known<'a> {
        Known { memo: &self.memo, objects: &loaded.objects, fresh: BTreeMap::new() }
    }
}

/// What is known of a title's fragments; what was just read stays known whatever is remembered meanwhile.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    memo: &'a Memo<(u64, u64), Arc<FragmentSamples>>,
    objects: &'a [Arc<Object>],
    fresh: BTreeMap<(usize, u64), Arc<FragmentSamples>>,
}

impl KnownFragments for Known<'_> {
    fn get(&self, object: usize, offset: u64) -> Option<Arc<FragmentSamples>> {
        if let Some(samples) = self.fresh.get(&(object, offset)) {
            return Some(samples.clone());
        }
        self.memo.get(&(self.objects.get(object)?.id, offset))
    }
}

impl Known<'_> {
    /// Reads the `moof`s of fragments. Their media is read by the same requests and stays in `fetch`.
    pub(crate) async fn learn(&mut self, fetch: &mut Fetch, needs: &[SourceRange]) -> Result<(), Error> {
        fetch.cover(needs)?;
        fetch.opened().await?;
        for need in needs {
            self.learn_one(need, Reads::WithMedia(fetch)).await?;
        }
        Ok(())
    }

    /// As [`Self::learn`], but nothing of the media is read: each `moof` by requests of its own.
    pub(crate) async fn learn_alone(
        &mut self,
        fetch: &(dyn Fn() -> Fetch + Sync),
        needs: &[SourceRange],
    ) -> Result<(), Error> {
        for need in needs {
            self.learn_one(need, Reads::Alone(fetch)).await?;
        }
        Ok(())
    }

    /// Reads one fragment's `moof`s.
    async fn learn_one(&mut self, need: &SourceRange, mut reads: Reads<'_>) -> Result<(), Error> {
        let object = self.objects.get(need.object).ok_or(Error::Internal("a fragment of no object"))?;
        let malformed = |error| Error::index(object.key.as_str(), error);
        let mut reader = FragmentReader::new(object.index.clone(), need.range.clone());
        let mut step = reader.feed(need.range.start, &Bytes::new()).map_err(malformed)?;
        let samples = loop {
            match step {
                FragmentStep::Done(samples) => break Arc::new(samples),
                FragmentStep::Need { from, len } => {
                    let bytes = reads.bytes(need, from, len).await?;
                    step = reader.feed(from, &bytes).map_err(malformed)?;
                }
            }
        };
        self.memo.insert((object.id, need.range.start), samples.clone());
        self.fresh.insert((need.object, need.range.start), samples);
        Ok(())
    }
}

/// How `moof`s are read.
enum Reads<'a> {
    /// By requests that read the media behind them too.
    WithMedia(&'a mut Fetch),
    /// By requests of their own.
    Alone(&'a (dyn Fn() -> Fetch + Sync)),
}

impl Reads<'_> {
    /// Bytes of a fragment's object `from` an offset on, at least `len`.
    async fn bytes(&mut self, fragment: &SourceRange, from: u64, len: u64) -> Result<Bytes, Error> {
        let object = fragment.object;
        match self {
            Self::WithMedia(fetch) => fetch.bytes(object, from, len).await,
            Self::Alone(fetch) => {
                let mut fetch = fetch();
                let range = from..from.saturating_add(len.max(MOOF_READ)).min(fragment.range.end);
                fetch.cover(&[SourceRange { object, range }])?;
                fetch.bytes(object, from, len).await
            }
        }
    }
}
