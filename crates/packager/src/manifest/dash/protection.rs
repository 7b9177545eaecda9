//! `ContentProtection`: scheme, key and DRM systems of an adaptation set (ISO/IEC 23009-1 §5.8.4.1,
//! ISO/IEC 23001-7 §11.2).

use crate::{address::Links, manifest::xml::Xml, protection::Cover};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use latemux_protect::{DrmSystem, systems::playready_object};

/// Writes the elements of an adaptation set.
pub(super) fn write(xml: &mut Xml, cover: &Cover<'_>, links: &Links<'_>) {
    xml.tag("ContentProtection")
        .attr("schemeIdUri", "urn:mpeg:dash:mp4protection:2011")
        .attr("value", cover.scheme.name())
        .attr("cenc:default_KID", cover.key.id().uuid())
        .empty();
    for &system in cover.systems {
        let name = match system {
            DrmSystem::Widevine => "Widevine",
            DrmSystem::PlayReady => "MSPR 2.0",
            DrmSystem::ClearKey => "ClearKey1.0",
            // There is no FairPlay in DASH.
            DrmSystem::FairPlay => continue,
        };
        xml.tag("ContentProtection")
            .attr("schemeIdUri", format_args!("urn:uuid:{}", system.uuid()))
            .attr("value", name)
            .attr("cenc:default_KID", cover.key.id().uuid())
            .children();
        // dash.js takes the data of Clear Key for a list of key IDs in JSON, if there is any.
        let pssh = system.pssh(cover.key, cover.scheme).filter(|_| system != DrmSystem::ClearKey);
        if let Some(pssh) = pssh {
            xml.tag("cenc:pssh").text(&STANDARD.encode(pssh));
        }
        if system == DrmSystem::PlayReady {
            let object = playready_object(cover.key, cover.scheme);
            xml.tag("mspr:pro").text(&STANDARD.encode(object));
        }
        if system == DrmSystem::ClearKey {
            xml.tag("dashif:Laurl").attr("Lic_type", "EME-1.0").text(&links.clear_key_licence());
        }
        xml.close();
    }
}
