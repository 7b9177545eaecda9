//! The main path: route → title → plan → read → respond.

use crate::{
    Error, api,
    app::App,
    http::page,
    http::respond::{Representation, decide, error_response, etag, not_modified, options_response},
    observe::access::AccessLog,
    observe::metrics::RequestLabels,
    observe::trace::{Stage, Trace, enter_stage, set_labels},
    read::body::{Body, PlanBody},
    read::fetch::Fetch,
    read::fragments::MoofReads,
    read::segment::{SegmentPlan, plan_segment},
    route::{Route, TitleRequest, route},
    title::titles::{Freshness, LoadedTitle},
};
use http::{Request, Response, request::Parts};
use latemux_packager::{Address, Plan, plan::Class};
use std::{ops::Range, sync::Arc, time::Instant};

/// Responds to a request, with an error response if it fails. The request is logged once the body
/// of the response has ended.
pub(crate) async fn handle<B>(app: &App, request: Request<B>) -> Response<Body> {
    let trace = Trace::start(app.metrics.clone(), app.config.debug_headers);
    let mut log = AccessLog::start(trace.clone(), request.into_parts().0);
    let result = trace.scope(serve(app, log.request(), trace.started())).await;
    let mut response = result.unwrap_or_else(|error| {
        log.record_error_response(&error);
        error_response(&error, &log.request().method)
    });
    if app.config.debug_headers {
        trace.add_debug_headers(response.headers_mut());
    }
    log.record_status(response.status());
    response.map(|body| body.logged(log))
}

/// Runs the stages route and title, then the others. If an object has changed since it was indexed,
/// loads the title again and repeats the others once.
async fn serve(app: &App, request: &Parts, began: Instant) -> Result<Response<Body>, Error> {
    let route = route(&request.method, &request.uri, &app.nginx_vod)?;
    route.labels().into_iter().for_each(set_labels);
    let wanted = match route {
        Route::Title(wanted) => wanted,
        Route::Page(file) => return page::respond(request, &file),
        Route::Library => return Box::pin(api::library(app, request)).await,
        Route::Health { is_readiness } => return api::health(app, request, is_readiness),
        Route::Options => return Ok(options_response()),
    };
    enter_stage(Stage::Title);
    let freshness = if wanted.is_manifest() { Freshness::RecentAt(began) } else { Freshness::Any };
    let title = app.titles.load(wanted.base(), freshness).await?;
    match serve_title(app, request, &wanted, &title).await {
        Err(error) if error.is_changed() => {
            tracing::warn!(reason = error.reason(), title = title.base, "{error}: indexing the title again");
            let title = app.titles.load(wanted.base(), Freshness::Current).await?;
            Box::pin(serve_title(app, request, &wanted, &title)).await
        }
        other => other,
    }
}

/// Runs the stages plan, read and respond for a manifest or a segment.
async fn serve_title(
    app: &App,
    request: &Parts,
    wanted: &TitleRequest,
    title: &Arc<LoadedTitle>,
) -> Result<Response<Body>, Error> {
    enter_stage(Stage::Plan);
    let address = &*wanted.address(&title.title, &title.files, &app.nginx_vod)?;
    set_labels(RequestLabels::of(&address.resource));
    if address.resource.is_manifest() {
        let manifest = app.manifests.get(title, address).await?;
        manifest.respond(request, &app.config.cache_control)
    } else {
        // Boxed so that manifest requests do not carry the large future of a segment.
        Box::pin(serve_segment(app, request, address, title)).await
    }
}

/// Runs the stages plan, read and respond for a segment. No media is read for a response without a
/// body, unless the length of the segment depends on its media.
async fn serve_segment(
    app: &App,
    request: &Parts,
    address: &Address,
    title: &Arc<LoadedTitle>,
) -> Result<Response<Body>, Error> {
    let mut fetch = Fetch::new(title.objects.clone(), app.config.read.clone());
    let moofs = MoofReads::WithMedia(&mut fetch);
    let plan = match plan_segment(title, address, &app.fragments, moofs).await? {
        SegmentPlan::Ready(plan) => plan,
        SegmentPlan::MediaFirst(media) => {
            let known = representation(app, Class::Media, media.digest(), "", 0);
            if let Some(head) = not_modified(request, &known)? {
                return Ok(head.respond(Body::empty()));
            }
            fetch.set_reach(media.reach().to_vec());
            let bytes = PlanBody::read_all(media.parts(), &mut fetch, app.config.read.held).await?;
            media.plan(&bytes)
        }
    };
    let length = plan.content_length;
    let head = decide(request, &representation(app, plan.class, plan.digest, plan.content_type, length))?;
    let Some(window) = head.window.clone() else { return Ok(head.respond(Body::empty())) };
    let body = read_segment(app, address, title, plan, window, fetch).await?;
    Ok(head.respond(body))
}

/// Starts a window of a segment's body: from the cache of finished segments or from storage.
async fn read_segment(
    app: &App,
    address: &Address,
    title: &Arc<LoadedTitle>,
    mut plan: Plan,
    window: Range<u64>,
    mut fetch: Fetch,
) -> Result<Body, Error> {
    let length = plan.content_length;
    let is_whole = window == (0..length);
    // To be called only after this segment's own reads have begun.
    let prefetch = || app.prefetch.as_ref().filter(|_| is_whole)?.after(title, address);
    // `plan.digest` covers only the first 64 KiB of an object, so two versions can have the same
    // digest. The title's ID, which is unique in this process, tells them apart.
    let digest = plan.digest ^ u128::from(title.id);
    let segments = app.segments.as_ref().filter(|_| plan.class == Class::Media);
    if let Some(pieces) = segments.and_then(|segments| segments.get(digest)) {
        return Ok(Body::from_cache(&pieces, window).with_prefetch(prefetch()));
    }
    enter_stage(Stage::Read);
    fetch.set_reach(std::mem::take(&mut plan.reach));
    let body = PlanBody::start(plan, window, fetch, &app.first_byte_wait).await?;
    let entry = segments.filter(|_| is_whole).and_then(|segments| segments.collect(digest, length));
    Ok(Body::plan(body, Some(title.clone())).with_prefetch(prefetch()).cached(entry))
}

fn representation(
    app: &App,
    class: Class,
    digest: u128,
    content_type: &'static str,
    length: u64,
) -> Representation {
    let cache_control = app.config.cache_control.of(class);
    Representation::fixed(content_type, length, Some(etag(digest, "")), cache_control)
}
