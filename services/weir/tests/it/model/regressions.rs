//! Histories that once showed a difference between service and model, by name. A failing run of the model prints its
//! history in the form that stands here, already shrunk.

use super::replay;
