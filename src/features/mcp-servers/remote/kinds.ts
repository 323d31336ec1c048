/** The kinds of sources outside the platform. */

import { Problem } from '../../../core/problem.ts'
import { openApi } from './openapi/openapi.ts'
import type { RemoteSource, SourceKind } from './source-kind.ts'

const KINDS: Partial<Record<RemoteSource['kind'], SourceKind>> = { openapi: openApi }

/** @throws Problem `validation_failed` for a kind that is not supported */
export function kindOf({ kind }: Pick<RemoteSource, 'kind'>): SourceKind {
  const found = KINDS[kind]
  if (found !== undefined) return found
  const detail = `kind: ${kind} is not supported. Supported: ${Object.keys(KINDS).join(', ')}.`
  throw new Problem('validation_failed', { detail })
}
