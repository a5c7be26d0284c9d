//! What libraries that think of `IPython` find in our kernel.

use serde_json::json;
use warmcell::execution::Status;
use warmcell::jupyter::PublishedKind;

use crate::messages_kit::{Seen, show};
use crate::support::{on_each_python, run};

#[tokio::test]
async fn what_ipythons_display_shows_is_shown() {
    on_each_python(async |session, version| {
        // Its shape, with functions that would speak to a shell that is not there.
        let code = "\
import os
os.makedirs('IPython/core')
functions = ['display', 'update_display', 'clear_output', 'publish_display_data']
source = f'__all__ = {functions}\\n'
source += ''.join(f'def {name}(*given, **named): raise OSError({name!r})\\n' for name in functions)
for path, source in [
    ('__init__.py', ''), ('core/__init__.py', ''), ('core/display_functions.py', source),
    ('display.py', 'from IPython.core.display_functions import *'),
]:
    with open('IPython/' + path, 'w') as file: file.write(source)";
        run(session, code).await;
        let code = "\
from IPython.display import *
import IPython.core.display_functions as functions
display(1, display_id='x')
update_display(2, display_id='x')
functions.publish_display_data({'text/html': '<b>'}, {'text/html': {'a': 1}}, source='y')
functions.publish_display_data({'text/plain': '3'}, transient={'display_id': 'x'}, update=True)
clear_output(wait=True)";
        let (outcome, seen) = show(session, code).await;
        assert_eq!(outcome.status, Status::Success, "{version}: {}", outcome.output);
        let shown = |data, metadata, transient| {
            json!({ "data": data, "metadata": metadata, "transient": transient })
        };
        let x = json!({ "display_id": "x" });
        let none = json!({});
        let html = (json!({ "text/html": "<b>" }), json!({ "text/html": { "a": 1 } }));
        assert_eq!(
            seen,
            [
                (PublishedKind::Display, shown(json!({ "text/plain": "1" }), none.clone(), x.clone())),
                (PublishedKind::Update, shown(json!({ "text/plain": "2" }), none.clone(), x.clone())),
                (PublishedKind::Display, shown(html.0, html.1, none.clone())),
                (PublishedKind::Update, shown(json!({ "text/plain": "3" }), none, x)),
                (PublishedKind::Clear, json!({ "wait": true })),
            ]
            .map(|(kind, content)| Seen::Published(kind, content)),
            "{version}"
        );
    })
    .await;
}
