//! Compiled expressions of one document, each text compiled once however often it is written.

use std::collections::HashMap;

use crate::cel::{CompileError, Program};

#[derive(Debug, Default)]
pub(super) struct Programs(HashMap<String, Result<Program, CompileError>>);

impl Programs {
    pub(super) fn get(&mut self, source: &str) -> Result<Program, CompileError> {
        if let Some(done) = self.0.get(source) {
            return done.clone();
        }
        let done = Program::compile(source);
        self.0.insert(source.to_owned(), done.clone());
        done
    }
}
