"""Recorded events of a profile as objects, tables, trees and files; marks for other profilers."""
