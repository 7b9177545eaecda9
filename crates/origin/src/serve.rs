//! The main path: route → title → plan → read → respond.

use crate::{
    Error, api,
    app::App,
    http::page,
    http::respond::{Representation, decide, etag, not_modified, options_response},
    observe::metrics::RequestLabels,
    observe::trace::{Stage, enter_stage, set_labels},
    read::body::{Body, PlanBody},
    read::charge::{Charge, SMALL_FRAME},
    read::fetch::Fetch,
    read::fragments::MoofReads,
    read::segment::{SegmentPlan, plan_segment},
    route::{Route, TitleRequest, route},
    title::checks::{Freshness, MISSING_AGE},
    title::titles::LoadedTitle,
};
use http::{HeaderValue, Response, header::WARNING, request::Parts};
use latemux_packager::{Address, AddressError, address::MINIMUM_SEGMENT, plan::Class};
use latemux_quantity::TimeSpan;
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// Runs the stages route and title, then the others. If an object has changed since it was indexed,
/// or may have grown, loads the title again and repeats the others once. `charge` takes what the
/// response keeps in memory.
pub(crate) async fn serve(app: &App, request: &Parts, charge: &Arc<Charge>) -> Result<Response<Body>, Error> {
    let response = serve_route(app, request, charge).await?;
    charge.require(response.body().unreserved().saturating_sub(SMALL_FRAME as u64))?;
    Ok(response)
}

async fn serve_route(app: &App, request: &Parts, charge: &Arc<Charge>) -> Result<Response<Body>, Error> {
    let route = route(&request.method, &request.uri, &app.nginx_vod)?;
    if !app.config.page && matches!(route, Route::Page(_) | Route::Library) {
        return Err(Error::NoSuchUrl);
    }
    route.labels().into_iter().for_each(set_labels);
    let wanted = match route {
        Route::Title(wanted) => wanted,
        Route::Page(file) => return page::respond(request, &file),
        Route::Library => return Box::pin(api::library(app, request)).await,
        Route::Health { is_readiness } => return api::health(app, request, is_readiness),
        Route::Options => return Ok(options_response()),
    };
    check_joined(&wanted, app.config.urls.max_joined)?;
    enter_stage(Stage::Title);
    let freshness = if wanted.is_manifest() { Freshness::Recent } else { Freshness::Any };
    let title = app.titles.load(wanted.base(), freshness).await?;
    match serve_title(app, request, &wanted, &title, charge).await {
        Err(error) if error.is_changed() => {
            tracing::warn!(reason = error.reason(), title = title.base, "{error}: indexing the title again");
            title.checks.mark_outdated();
            let title = app.titles.load(wanted.base(), Freshness::Current).await?;
            Box::pin(serve_title(app, request, &wanted, &title, charge)).await
        }
        Err(error) if error.is_missing_media() => {
            let current = app.titles.load(wanted.base(), Freshness::Within(MISSING_AGE)).await?;
            if current.id == title.id {
                return Err(error);
            }
            Box::pin(serve_title(app, request, &wanted, &current, charge)).await
        }
        other => other,
    }
}

/// Refuses segments that are joined until they last longer than `longest`.
fn check_joined(wanted: &TitleRequest, longest: Duration) -> Result<(), Error> {
    if wanted.selection().minimum_segment.is_none_or(|minimum| minimum <= longest) {
        return Ok(());
    }
    let problem = format!("longer than {}, the limit of this server", TimeSpan(longest));
    Err(Error::Query(AddressError::Malformed { parameter: MINIMUM_SEGMENT, problem }))
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
        let manifest = app.manifests.get(title, at_cuts.as_ref().unwrap_or(address)).await?;
        let mut response = manifest.respond(request, cache_control(app, title, Class::Manifest))?;
        if title.checks.is_stale() {
            app.metrics.stale_manifests.fetch_add(1, Relaxed);
            response.headers_mut().insert(WARNING, HeaderValue::from_static(STALE));
        }
        return Ok(response);
    }
    // Boxed so that manifest requests do not carry the large future of a segment.
    Box::pin(serve_segment(app, request, address, title, charge)).await
}

/// The `Warning` of a manifest whose title storage does not confirm (RFC 7234, 5.5.2).
const STALE: &str = "111 - \"Revalidation Failed\"";

/// Returns the `Cache-Control` of a response. While a title is unsettled, nothing of it may be
/// cached, because other tracks may give the same segments other bytes.
fn cache_control(app: &App, title: &LoadedTitle, class: Class) -> Option<HeaderValue> {
    if title.checks.is_unsettled() {
        return Some(HeaderValue::from_static("no-store"));
    }
    app.config.cache_control.of(class)
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
        let cache_control = cache_control(app, title, class);
        Representation::fixed(content_type, length, Some(etag(digest, "")), cache_control)
    };
    let mut fetch = Fetch::new(title.objects.clone(), app.config.read.clone(), charge.clone());
    let moofs = MoofReads::WithMedia(&mut fetch);
    let plan = match plan_segment(title, address, &app.fragments, moofs).await? {
        SegmentPlan::Ready(plan) => plan,
        SegmentPlan::MediaFirst(media) => {
            if let Some(head) = not_modified(request, &known(Class::Media, media.digest(), "", 0))? {
                return Ok(head.respond(Body::empty()));
            }
            fetch.set_reach(media.reach().to_vec());
            let bytes = PlanBody::read_all(media.parts(), &mut fetch, app.config.read.held).await?;
            media.plan(&bytes)
        }
    };
    let head = decide(request, &known(plan.class, plan.digest, plan.content_type, plan.content_length))?;
    let Some(window) = head.window.clone() else { return Ok(head.respond(Body::empty())) };
    let body = app.bodies.start(title, address, plan, window, fetch).await?;
    Ok(head.respond(body))
}
