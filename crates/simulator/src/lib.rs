//! Virtual time: a scenario of nodes, drives, servers and jobs in, an outcome out.
