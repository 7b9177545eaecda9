//! The main path: route → title → plan → read → respond.

use crate::{
    Error, api,
    app::App,
    http::freshness::{cache_control, warn_if_stale},
    http::manifests::Manifest,
    http::page,
    http::respond::{Representation, decide, etag, not_modified, options_response},
    key_delivery,
    observe::metrics::RequestLabels,
    observe::trace::{Stage, enter_stage, set_labels},
    read::body::Body,
    read::charge::{Charge, SMALL_FRAME},
    read::fetch::Fetch,
    read::fragments::MoofReads,
    read::segment::complete_plan,
    route::{Route, TitleRequest, route},
    title::checks::{Checks, Freshness},
    title::loaded_title::LoadedTitle,
};
use http::{Response, request::Parts};
use latemux_packager::{Address, plan::Class};
use std::{ops::ControlFlow, sync::Arc};

/// Runs all stages. `charge` takes what the response keeps in memory.
pub(crate) async fn serve(app: &App, request: &Parts, charge: &Arc<Charge>) -> Result<Response<Body>, Error> {
    let response = serve_route(app, request, charge).await?;
    charge.require(response.body().unreserved().saturating_sub(SMALL_FRAME as u64))?;
    Ok(response)
}

/// Runs the stages route and title, then the others.
async fn serve_route(app: &App, request: &Parts, charge: &Arc<Charge>) -> Result<Response<Body>, Error> {
    let route = route(&request.method, &request.uri, &app.nginx_vod)?;
    route.labels().into_iter().for_each(set_labels);
    let wanted = match route {
        Route::Title(wanted) => wanted,
        Route::Page(_) | Route::Library if !app.config.page => return Err(Error::NoSuchUrl),
        Route::Page(file) => return page::respond(request, &file),
        Route::Library => return Box::pin(api::library(app, request)).await,
        Route::Health { is_readiness } => return api::health(app, request, is_readiness),
        Route::Key(key) => return Box::pin(key_delivery::respond(app, request, &key)).await,
        Route::Options => return Ok(options_response()),
    };
    wanted.check_joined(app.config.urls.max_joined)?;
    enter_stage(Stage::Title);
    let freshness = if wanted.is_manifest() { Freshness::Recent } else { Freshness::Any };
    if let Some(title) = app.titles.fresh(wanted.base(), freshness) {
        return serve_loaded(app, request, &wanted, &title, charge).await;
    }
    // Boxed so that requests which find the title in memory do not carry these large futures.
    if let Some(response) = Box::pin(serve_resting(app, request, &wanted)).await? {
        return Ok(response);
    }
    let title = Box::pin(app.titles.load_current(wanted.base(), freshness)).await?;
    let response = Box::pin(serve_loaded(app, request, &wanted, &title, charge)).await;
    // If the title rested, its manifest may have been in memory.
    app.titles.forget_values(&title);
    response
}

/// Runs the stages after the title. If the title has changed since it was loaded, runs them once
/// more.
async fn serve_loaded(
    app: &App,
    request: &Parts,
    wanted: &TitleRequest,
    title: &Arc<LoadedTitle>,
    charge: &Arc<Charge>,
) -> Result<Response<Body>, Error> {
    match serve_title(app, request, wanted, title, charge).await {
        Err(error) => {
            let current = app.titles.reload_after(error, title).await?;
            Box::pin(serve_title(app, request, wanted, &current, charge)).await
        }
        served => served,
    }
}

/// Serves a manifest that is in memory of a title whose indexes are not. Returns `None` for any
/// other request.
async fn serve_resting(
    app: &App,
    request: &Parts,
    wanted: &TitleRequest,
) -> Result<Option<Response<Body>>, Error> {
    let Some(address) = wanted.manifest_address() else { return Ok(None) };
    let Some(title) = app.titles.resting(&address.base) else { return Ok(None) };
    let Some(manifest) = app.manifests.known(title.id, address, request) else { return Ok(None) };
    if !app.titles.may_rest(&address.base, &title).await? {
        return Ok(None);
    }
    enter_stage(Stage::Plan);
    respond_with(app, request, &manifest, &title.checks).map(Some)
}

/// Responds with a manifest of a title.
fn respond_with(
    app: &App,
    request: &Parts,
    manifest: &Manifest,
    checks: &Checks,
) -> Result<Response<Body>, Error> {
    let cache_control = cache_control(&app.config.cache_control, checks, Class::Manifest);
    let mut response = manifest.respond(request, cache_control)?;
    warn_if_stale(&app.metrics, checks, response.headers_mut());
    Ok(response)
}

/// Runs the stages plan, read and respond.
async fn serve_title(
    app: &App,
    request: &Parts,
    wanted: &TitleRequest,
    title: &Arc<LoadedTitle>,
    charge: &Arc<Charge>,
) -> Result<Response<Body>, Error> {
    enter_stage(Stage::Plan);
    let address = &*wanted.address(&title.title, &title.files, &app.nginx_vod)?;
    set_labels(RequestLabels::of(&address.resource));
    if address.resource.is_manifest() {
        let at_cuts = address.at_cuts(&title.title);
        let manifest = app.manifests.get(title, at_cuts.as_ref().unwrap_or(address), request).await?;
        return respond_with(app, request, &manifest, &title.checks);
    }
    // Boxed so that manifest requests do not carry the large future of a segment.
    Box::pin(serve_segment(app, request, address, title, charge)).await
}

/// Runs these stages for a segment. No media is read for a response without a body, unless the
/// length of the segment depends on its media.
async fn serve_segment(
    app: &App,
    request: &Parts,
    address: &Address,
    title: &Arc<LoadedTitle>,
    charge: &Arc<Charge>,
) -> Result<Response<Body>, Error> {
    let known = |class, digest, content_type, length| {
        let cache_control = cache_control(&app.config.cache_control, &title.checks, class);
        Representation::fixed(content_type, length, Some(etag(digest, "")), cache_control)
    };
    let mut fetch = Fetch::new(title.pinned.clone(), app.config.read.clone(), charge.clone());
    let mut cuts = app.cuts.of(title);
    let reads = MoofReads::WithMedia(&mut fetch);
    let held = app.config.read.held;
    let answer = |digest, content_type| not_modified(request, &known(Class::Media, digest, content_type, 0));
    let planned = complete_plan(title, address, &app.fragments, &mut cuts, reads, held, answer).await?;
    let plan = match planned {
        ControlFlow::Continue(plan) => plan,
        ControlFlow::Break(head) => return Ok(head.respond(Body::empty())),
    };
    let head = decide(request, &known(plan.class, plan.digest, plan.content_type, plan.content_length))?;
    let Some(window) = head.window.clone() else { return Ok(head.respond(Body::empty())) };
    let body = app.bodies.start(title, address, plan, window, fetch).await?;
    Ok(head.respond(body))
}
