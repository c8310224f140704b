//! Recorder, scripted responses and other helpers for tests.
