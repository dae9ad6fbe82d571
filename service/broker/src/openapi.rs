//! The OpenAPI 3.1 document: made from the handlers and documents, served, and kept in `docs/openapi.json`.

use utoipa::OpenApi;

/// Everything under `/v1`.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Sluice broker",
        description = "Reservations of network, processor, disk and whatever is counted, now or for later, over one or more agents. \
                       Rates are bit/s of IP bytes; integers have 64 bits.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    paths(
        crate::routes::resources,
        crate::routes::enquire,
        crate::routes::create,
        crate::routes::list,
        crate::routes::show,
        crate::routes::modify,
        crate::routes::cancel,
        crate::routes::bind,
        crate::routes::commit,
        crate::routes::history,
        crate::routes::paths,
        crate::may::may,
        crate::routes::events,
        crate::routes::webhooks,
        crate::routes::add_webhook,
        crate::routes::remove_webhook,
    ),
    components(schemas(crate::documents::Event))
)]
struct Document;

/// The document as the broker serves it.
pub fn text() -> String {
    // Our own document has string keys and finite numbers: it can always be written.
    Document::openapi().to_pretty_json().unwrap_or_default() + "\n"
}
