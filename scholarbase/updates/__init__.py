"""New releases of snapshots."""
