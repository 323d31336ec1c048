/** Documents against their collection's declaration. */

import { Problem } from '../../core/problem.ts'
import { type Fault, faultsOf, faultsOfChange } from '../schemas/validate.ts'
import type { Collection } from './store.ts'

type Fields = Record<string, unknown>

/** The faults of a whole document to warn of. @throws Problem `schema_violation` where the schema is enforced */
export function judge({ declared }: Collection, fields: Fields): readonly Fault[] {
  if (declared === undefined || declared.mode === 'off') return []
  return settled(declared.mode, faultsOf(declared.schema, fields))
}

/** Whether fields that are set can be judged without the others. */
export function judgesAlone({ declared }: Collection): boolean {
  return declared === undefined || declared.mode === 'off' || declared.schema.separable
}

/** The same for fields that are set in a document, where they can be judged alone. */
export function judgeChange({ declared }: Collection, fields: Fields): readonly Fault[] {
  if (declared === undefined || declared.mode === 'off') return []
  return settled(declared.mode, faultsOfChange(declared.schema, fields))
}

function settled(mode: 'warn' | 'enforce', faults: readonly Fault[]): readonly Fault[] {
  if (mode === 'warn' || faults.length === 0) return faults
  const detail = faults.map((fault) => `${fault.pointer || 'the document'} ${fault.detail}`).join('; ')
  throw new Problem('schema_violation', { detail, errors: faults })
}
