//! The OpenAPI 3.1 document: made from the handlers and documents, served, and kept in `docs/openapi.json`.

use booking::policy::rights::Call;
use std::collections::BTreeMap;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, Paths};
use utoipa::openapi::schema::{AdditionalProperties, Type};
use utoipa::openapi::{Object, RefOr, Required, Schema};

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
        crate::listing::list,
        crate::routes::show,
        crate::routes::modify,
        crate::routes::cancel,
        crate::routes::bind,
        crate::routes::commit,
        crate::routes::history,
        crate::routes::paths,
        crate::may::may,
        crate::domains::answer::topology,
        crate::outcome::outcome,
        crate::legs::decide,
        crate::legs::promise,
        crate::legs::state,
        crate::legs::end,
        crate::kept_acceptances::list,
        crate::overview::me,
        crate::overview::ticket,
        crate::overview::agents,
        crate::overview::map,
        crate::overview::interfaces,
        crate::overview::audit,
        crate::overview::signalled,
        crate::overview::doctor,
        crate::metrics_page::metrics,
        crate::measured::measured,
        crate::ical::feed,
        crate::readings::list,
        crate::readings::put,
        crate::routes::events,
        crate::routes::webhooks,
        crate::routes::add_webhook,
        crate::routes::remove_webhook,
    ),
    components(schemas(documents::rest::Event))
)]
struct Document;

/// The document as the broker serves it.
pub fn text() -> String {
    let mut document = Document::openapi();
    if let Some(components) = &mut document.components {
        close(&mut components.schemas);
    }
    name_users(&mut document.paths);
    // Our own document has string keys and finite numbers: it can always be written.
    document.to_pretty_json().unwrap_or_default() + "\n"
}

/// Adds the header of those who reserve for other users, to the calls that take it.
fn name_users(paths: &mut Paths) {
    for call in Call::ALL.iter().filter(|call| call.is_for_users()) {
        let Some((method, path)) = call.name().split_once(' ') else { continue };
        let Some(item) = paths.paths.get_mut(path) else { continue };
        let operation: &mut Option<Operation> = match method {
            "GET" => &mut item.get,
            "POST" => &mut item.post,
            "DELETE" => &mut item.delete,
            _ => continue,
        };
        if let Some(operation) = operation {
            operation.parameters.get_or_insert_default().push(for_user());
        }
    }
}

fn for_user() -> Parameter {
    let text = "On the Unix socket, from users whom `speakers` of broker.toml names: make the request that of this user of the \
                machine, with these groups. Never root.";
    ParameterBuilder::new()
        .name("Sluice-For")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(text))
        .example(Some("uid:1000 gid:1000 gid:27".into()))
        .schema(Some(Object::with_type(Type::String)))
        .build()
}

/// Requests that contain another document (`flatten`).
const NESTED: [&str; 2] = ["Change", "Wish"];

/// Writes a request that contains another document as one object with the fields of both, which takes no other
/// fields: as `allOf` it would take any.
fn close(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    for name in NESTED {
        let Some(RefOr::T(Schema::AllOf(all))) = schemas.remove(name) else { continue };
        let mut whole = Object::new();
        for item in all.items {
            let part = match item {
                RefOr::T(Schema::Object(part)) => part,
                RefOr::Ref(at) => match schemas.remove(at.ref_location.trim_start_matches("#/components/schemas/")) {
                    Some(RefOr::T(Schema::Object(part))) => part,
                    _ => continue,
                },
                RefOr::T(_) => continue,
            };
            whole.properties.extend(part.properties);
            whole.required.extend(part.required);
        }
        whole.description = all.description;
        whole.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        schemas.insert(name.to_owned(), whole.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|field| references(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn the_calls_that_are_made_for_others_name_the_header() {
        let document: Value = serde_json::from_str(&super::text()).unwrap();
        let mut found = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let all = operation["parameters"].as_array().cloned().unwrap_or_default();
                found.extend(all.iter().filter(|one| one["name"] == "Sluice-For" && one["in"] == "header").map(
                    |one| {
                        assert_eq!(one["required"], false, "{path}");
                        format!("{} {path}", method.to_uppercase())
                    },
                ));
            }
        }
        let calls = super::Call::ALL.iter().filter(|call| call.is_for_users());
        let mut expected: Vec<String> = calls.map(|call| call.name().to_owned()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_reference_leads_somewhere_and_requests_are_closed() {
        let document: Value = serde_json::from_str(&super::text()).unwrap();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 50, "{}", found.len());
        for at in found {
            assert!(document.pointer(at.trim_start_matches('#')).is_some(), "{at}");
        }
        for request in ["Wish", "PathWish", "Ports", "Change", "BindWish", "WebhookWish"] {
            let schema = &document["components"]["schemas"][request];
            assert_eq!(
                (&schema["type"], &schema["additionalProperties"]),
                (&"object".into(), &false.into()),
                "{request}"
            );
        }
        let wish = &document["components"]["schemas"]["Wish"]["properties"];
        assert!(
            ["path", "parts", "start", "windows", "hold_s"].iter().all(|field| wish.get(field).is_some()),
            "{wish}"
        );
    }
}
