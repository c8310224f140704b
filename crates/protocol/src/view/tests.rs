//! The contract view of everything that abide stores fits the published document.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use abide_schema::event::{EVENTS, EventData, StoredEvent, Visibility};
use abide_schema::live::{LIVE_EVENTS, LiveData, LiveEvent};
use abide_schema::location::LocationRef;
use abide_schema::message::Message;
use abide_schema::permission::PermissionRequest;
use abide_schema::question::QuestionRequest;
use abide_schema::session::{Admitted, SessionInfo};
use abide_schema::{EventId, Seq, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Shaped, Shown, ViewKind, is_contract_message, live, stored, stored_on_instance};
use crate::openapi::sample::sample;
use crate::openapi::tests::published;

/// How many of the alternatives of a schema are tried.
const N_CHOICES: usize = 12;

struct Validator {
    definitions: Value,
    compiled: RefCell<BTreeMap<String, Rc<jsonschema::Validator>>>,
}

impl Validator {
    fn new() -> Self {
        let mut document = published();
        let schemas = document["components"]["schemas"].take();
        let text = schemas.to_string().replace("#/components/schemas/", "#/$defs/");
        Self { definitions: serde_json::from_str(&text).unwrap(), compiled: RefCell::default() }
    }

    #[track_caller]
    fn check(&self, component: &str, value: &Value) {
        let validator = self
            .compiled
            .borrow_mut()
            .entry(component.to_owned())
            .or_insert_with(|| {
                let target = format!("#/$defs/{component}");
                let schema = json!({ "$ref": target, "$defs": self.definitions });
                Rc::new(jsonschema::draft202012::new(&schema).unwrap())
            })
            .clone();
        if let Err(error) = validator.validate(value) {
            panic!("{component}: {error}\n{value:#}");
        }
    }
}

fn generated(make: fn(&mut SchemaGenerator) -> Schema, choice: usize) -> Value {
    let mut generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
    let schema = make(&mut generator).to_value();
    sample(&schema, &generator.take_definitions(true), choice)
}

fn event(data: EventData, contract_seq: Option<u64>) -> StoredEvent {
    StoredEvent {
        id: EventId::from_trusted("evt_1"),
        seq: Seq(41),
        contract_seq: contract_seq.map(Seq),
        created: Timestamp(5),
        location: Some(LocationRef::new("/somewhere")),
        metadata: Some(serde_json::from_value(json!({ "inputHash": "abc", "trace": "t" })).unwrap()),
        data,
    }
}

#[test]
fn durable_events_fit() {
    let validator = Validator::new();
    let mut n_shown = 0;
    for def in EVENTS {
        for choice in 0..N_CHOICES {
            let data = generated(def.schema, choice);
            let data = EventData::decode(&def.stored_type(), &data.to_string()).unwrap();
            let event = event(data, Some(3));
            let on_session = stored(&event, ViewKind::Contract).unwrap();
            let on_instance = stored_on_instance(&event, ViewKind::Contract).unwrap();
            assert_eq!(on_session.is_some(), def.visibility == Visibility::Contract, "{}", def.name);
            if let Some(view) = &on_session {
                n_shown += 1;
                validator.check("SessionDurableEvent", &view.json);
                assert_eq!(view.json["durable"]["seq"], 3);
                assert_eq!(view.json["metadata"], json!({ "trace": "t" }));
            }
            if let Some(view) = &on_instance {
                validator.check("V2Event", &view.json);
            }
            assert_eq!(
                on_instance.is_some(),
                matches!(def.visibility, Visibility::Contract | Visibility::Counted),
                "{}",
                def.name
            );
            let full = stored(&event, ViewKind::Full).unwrap();
            assert_eq!(full.is_some(), def.visibility != Visibility::Internal, "{}", def.name);
            if let Some(full) = full {
                assert_eq!((full.seq, &full.json["durable"]["seq"]), (Some(Seq(41)), &json!(41)));
            }
        }
    }
    assert_eq!(n_shown, 28 * N_CHOICES);
}

#[test]
fn live_events_fit() {
    let validator = Validator::new();
    let mut hidden = Vec::new();
    for def in LIVE_EVENTS {
        for choice in 0..N_CHOICES {
            let data = LiveData::decode(def.name, generated(def.schema, choice)).unwrap().unwrap();
            let event =
                LiveEvent { id: EventId::from_trusted("evt_2"), location: Some(LocationRef::new("/somewhere")), data };
            match live(&event, ViewKind::Contract).unwrap() {
                Some(view) => validator.check("V2Event", &view.json),
                None => hidden.push(def.name),
            }
            assert!(live(&event, ViewKind::Full).unwrap().is_some());
        }
    }
    hidden.dedup();
    assert_eq!(hidden, ["session.next.tool.output.delta", "session.next.usage.updated"]);
    validator.check("V2Event", &super::server_connected(&EventId::from_trusted("evt_3")).json);
}

fn check_shaped<T: Shaped + JsonSchema + DeserializeOwned>(validator: &Validator, component: &str) {
    for choice in 0..N_CHOICES {
        let value: T = serde_json::from_value(generated(T::json_schema, choice)).unwrap();
        validator.check(component, &serde_json::to_value(Shown::new(value)).unwrap());
    }
}

#[test]
fn rows_fit() {
    let validator = Validator::new();
    check_shaped::<SessionInfo>(&validator, "SessionV2Info");
    check_shaped::<Admitted>(&validator, "SessionInputAdmitted");
    check_shaped::<PermissionRequest>(&validator, "PermissionV2Request");
    check_shaped::<QuestionRequest>(&validator, "QuestionV2Request");
    check_shaped::<abide_schema::message::Revert>(&validator, "RevertState");
}

#[test]
fn messages_fit() {
    let validator = Validator::new();
    let mut shown = std::collections::BTreeSet::new();
    for choice in 0..11 * 12 {
        let value = generated(Message::json_schema, choice);
        let message: Message = serde_json::from_value(value).unwrap();
        if is_contract_message(&message) {
            shown.insert(message.kind());
            validator.check("SessionMessage", &serde_json::to_value(Shown::new(message.clone())).unwrap());
        }
        let full = serde_json::to_value(Shown::with(message.clone(), ViewKind::Full)).unwrap();
        assert_eq!(serde_json::from_value::<Shown<Message>>(full).unwrap().value, message);
    }
    assert_eq!(shown.len(), 8, "{shown:?}");
}
