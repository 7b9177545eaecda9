//! The main path: route → resolve → index → plan → read ranges → package → respond.

use crate::{
    Error,
    app::App,
    http::page,
    http::respond::{self, Coding, Representation, ResponseHead, accepts_gzip, decide, etag, no_cache},
    observe::access::AccessLog,
    observe::metrics::RequestLabels,
    observe::trace::{Phase, Trace, asked_for, enter},
    read::body::{Body, PlanBody},
    read::fetch::Fetch,
    route::{Asked, Route, route},
    title::library,
    title::titles::{Fresh, LoadedTitle},
};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header, request::Parts};
use latemux_packager::{
    Address, Plan, Planned, plan,
    plan::{Class, MediaFirst},
};
use std::sync::Arc;

/// Answers a request: never fails, for an error is an answer too, and logs it once its body has ended.
pub(crate) async fn handle<B>(app: &App, request: Request<B>) -> Response<Body> {
    let trace = Trace::start(app.metrics.clone(), app.config.debug_headers);
    let mut log = AccessLog::start(trace.clone(), request.into_parts().0);
    let mut response = trace.scope(answer(app, log.request())).await.unwrap_or_else(|error| {
        log.refused(&error);
        respond::refuse(&error, &log.request().method)
    });
    if app.config.debug_headers {
        trace.tell(response.headers_mut());
    }
    log.answered(response.status());
    response.map(|body| body.logged(log))
}

/// Route, then for a title: resolve and index, plan, read, respond.
async fn answer(app: &App, request: &Parts) -> Result<Response<Body>, Error> {
    let route = route(&request.method, &request.uri, &app.nginx_vod)?;
    route.kind().into_iter().for_each(asked_for);
    let asked = match route {
        Route::Title(asked) => asked,
        Route::Page(file) => return page::respond(request, &file),
        Route::Library => return Box::pin(library_json(app, request)).await,
        Route::Health { ready } => return health(app, request, ready),
        Route::Options => return Ok(respond::options()),
    };
    enter(Phase::Index);
    let fresh = if asked.is_manifest() { Fresh::Recent } else { Fresh::Remembered };
    let title = app.titles.load(asked.base(), fresh).await?;
    match package(app, request, &asked, &title).await {
        Err(error) if error.is_changed() => {
            tracing::warn!(reason = error.reason(), title = title.base, "{error}: indexing it anew");
            let title = app.titles.load(asked.base(), Fresh::Now).await?;
            Box::pin(package(app, request, &asked, &title)).await
        }
        other => other,
    }
}

/// A manifest, or media. Boxed is what an answer takes room for while it is made, where not all of them need it.
async fn package(
    app: &App,
    request: &Parts,
    asked: &Asked,
    title: &Arc<LoadedTitle>,
) -> Result<Response<Body>, Error> {
    enter(Phase::Plan);
    let address = &*asked.of(&title.title, &title.files, &app.nginx_vod)?;
    asked_for(RequestLabels::of(&address.resource));
    if address.resource.is_manifest() {
        manifest(app, request, address, title).await
    } else {
        Box::pin(media(app, request, address, title)).await
    }
}

/// Plan → conditions → read → respond. Nothing of the media is read where no body is asked for.
async fn media(
    app: &App,
    request: &Parts,
    address: &Address,
    title: &Arc<LoadedTitle>,
) -> Result<Response<Body>, Error> {
    let mut fetch = Fetch::new(app.media.clone(), title.objects.clone(), app.config.read.clone());
    let mut plan = match plan_with_fragments(app, address, title, &mut fetch).await? {
        Ready::Plan(plan) => plan,
        Ready::MediaFirst(media) => {
            if let Some(head) = unchanged(app, request, &media)? {
                return Ok(head.respond(Body::empty()));
            }
            fetch.belongs_to(media.reach().to_vec());
            let bytes = PlanBody::hold(media.parts(), &mut fetch, app.config.read.held).await?;
            media.plan(&bytes)
        }
    };
    let head = decide(request, &representation(app, &plan))?;
    let Some(window) = head.window.clone() else { return Ok(head.respond(Body::empty())) };
    let length = plan.content_length;
    let is_whole = window == (0..length);
    // Not before this segment's own reads have begun.
    let ahead = || app.prefetch.as_ref().filter(|_| is_whole)?.after(title, address);
    // A digest is of what every node knows, which of media is the first bytes: another version of an object may have the same.
    let digest = plan.digest ^ u128::from(title.id);
    let segments = app.segments.as_ref().filter(|_| plan.class == Class::Media);
    if let Some(pieces) = segments.and_then(|segments| segments.get(digest)) {
        return Ok(head.respond(Body::kept(&pieces, window).with(ahead())));
    }
    enter(Phase::Storage);
    fetch.belongs_to(std::mem::take(&mut plan.reach));
    let segments = segments.filter(|_| is_whole);
    let body = PlanBody::start(plan, window, fetch, &app.patience).await?;
    let body = Body::plan(body, Some(title.clone())).with(ahead());
    Ok(head.respond(body.keep(segments.and_then(|segments| segments.collect(digest, length)))))
}

/// A plan whose samples are known.
enum Ready {
    Plan(Plan),
    MediaFirst(MediaFirst),
}

/// A plan; samples of fragments that are not known yet are read first, by the requests that read their media.
async fn plan_with_fragments(
    app: &App,
    address: &Address,
    title: &LoadedTitle,
    fetch: &mut Fetch,
) -> Result<Ready, Error> {
    let mut known = app.fragments.of(title);
    // Once every fragment of the segment was read, all is known: there is no third time.
    for _ in 0..3 {
        match plan(&title.title, address, &known)? {
            Planned::Ready(plan) => return Ok(Ready::Plan(plan)),
            Planned::NeedsMedia(media) => return Ok(Ready::MediaFirst(media)),
            Planned::Needs(needs) => {
                enter(Phase::Storage);
                fetch.belongs_to(needs.reach);
                known.learn(fetch, &needs.fragments).await?;
                enter(Phase::Plan);
            }
        }
    }
    Err(Error::Internal("a plan that is never complete"))
}

/// Whether the client's conditions are settled by the digest alone, before the length is known.
fn unchanged(app: &App, request: &Parts, media: &MediaFirst) -> Result<Option<ResponseHead>, Error> {
    let representation = Representation {
        content_type: "",
        length: 0,
        etag: Some(etag(media.digest(), "")),
        cache_control: app.config.cache_control.of(Class::Media),
        coding: Coding::Fixed,
    };
    match decide(request, &representation) {
        Ok(head) => Ok(head.is_not_modified().then_some(head)),
        Err(Error::RangeNotSatisfiable { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn representation(app: &App, plan: &Plan) -> Representation {
    Representation {
        content_type: plan.content_type,
        length: plan.content_length,
        etag: Some(etag(plan.digest, "")),
        cache_control: app.config.cache_control.of(plan.class),
        coding: Coding::Fixed,
    }
}

/// A manifest, compressed where the client takes it. A range is one of the plain text.
async fn manifest(
    app: &App,
    request: &Parts,
    address: &Address,
    title: &Arc<LoadedTitle>,
) -> Result<Response<Body>, Error> {
    let manifest = app.manifests.get(title, address).await?;
    let compressed = manifest
        .gzip
        .as_ref()
        .filter(|_| accepts_gzip(&request.headers) && !request.headers.contains_key(header::RANGE));
    let (form, coding, variant) = match compressed {
        Some(gzip) => (gzip, Coding::Gzip, "-gz"),
        None => (&manifest.text, Coding::Identity, ""),
    };
    let head = form.head(request, || {
        let representation = Representation {
            content_type: manifest.content_type,
            length: u64::try_from(form.bytes.len()).unwrap_or(u64::MAX),
            etag: Some(etag(manifest.digest, variant)),
            cache_control: app.config.cache_control.of(Class::Manifest),
            coding,
        };
        decide(request, &representation)
    })?;
    Ok(page::small(head, &form.bytes))
}

async fn library_json(app: &App, request: &Parts) -> Result<Response<Body>, Error> {
    let library = library::look(&*app.storage).await?;
    let json = serde_json::to_vec(&library).map_err(|_| Error::Internal("the library is no JSON"))?;
    json_line(request, &json.into())
}

fn health(app: &App, request: &Parts, ready: bool) -> Result<Response<Body>, Error> {
    let draining = ready && app.is_draining();
    let text: &[u8] = if draining { b"{\"status\":\"draining\"}\n" } else { b"{\"status\":\"ok\"}\n" };
    let mut response = json_line(request, &Bytes::from_static(text))?;
    if draining {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}

/// What is true of this moment only.
fn json_line(request: &Parts, json: &Bytes) -> Result<Response<Body>, Error> {
    let representation = Representation {
        content_type: "application/json",
        length: u64::try_from(json.len()).unwrap_or(u64::MAX),
        etag: None,
        cache_control: no_cache(),
        coding: Coding::Fixed,
    };
    Ok(page::small(decide(request, &representation)?, json))
}
