/** What each scope was lent of the platform's connections. Features ask for it in `src/platform` alone (.dependency-cruiser.cjs). */

import type { IdSource } from '../core/ids.ts'
import type { Parts } from './parts.ts'
import type { Mandate } from './pg/mandate.ts'

export interface Lent {
  readonly parts: Parts
  readonly ids: IdSource
  /** The rights of the scope's statements. */
  readonly mandate: Mandate
}

const LENT = new WeakMap<object, Lent>()

/** For constructors of scopes. */
export function lend(scope: object, lent: Lent): void {
  LENT.set(scope, lent)
}

/** @throws TypeError for an object that only looks like a scope */
export function lentTo(scope: object): Lent {
  const lent = LENT.get(scope)
  if (lent === undefined) throw new TypeError('not a scope of the platform')
  return lent
}
