"""Recorded events of a profile as objects, tables, trees and files; marks for NVTX and ITT."""
