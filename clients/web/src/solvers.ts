/** Which solver takes which profile. */

import type { Solver, StoredProfile } from './types';

/** Why a solver cannot take the profile; empty when it can. */
export function unfit(solver: Solver, profile: StoredProfile, linked: boolean): string {
  if (profile.graph && !solver.accepts.includes(profile.graph)) return 'not for a joint graph';
  if (!solver.accepts.includes(profile.kind)) return `not for a ${profile.kind}`;
  if (solver.homogeneous_only && !profile.homogeneous) return 'for equal costs only';
  return solver.needs_link && !linked ? 'needs a link' : '';
}
