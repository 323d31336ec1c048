/** The namespace of the platform in Temporal: whether it exists with all search attributes, and making both. */

import type { Connection } from '@temporalio/client'
import { msToTs } from '@temporalio/common/lib/time.js'
import proto from '@temporalio/proto'
import { SEARCH_ATTRIBUTES } from '../../core/work.ts'
import { retryTransient } from '../retry.ts'
import { GRPC, grpcCode } from './errors.ts'

const { IndexedValueType } = proto.temporal.api.enums.v1
/** Numbers of types of search attributes in the Temporal API. */
export const INDEXED_VALUE_TYPES = {
  Keyword: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
  KeywordList: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
} as const
const ATTRIBUTES = Object.entries(SEARCH_ATTRIBUTES).map(
  ([name, type]) => [name, INDEXED_VALUE_TYPES[type]] as const,
)
/** How long Temporal keeps closed workflows of a namespace that is made here: reruns and late questions need their results. */
const RETENTION_MS = 7 * 24 * 3_600_000
/** Other parts of Temporal learn of a new namespace within some 10 s. */
const KNOWN_MS = 60_000

type Services = Pick<Connection, 'workflowService' | 'operatorService'>

/** A fault of the namespace: whether it is missing or only its search attributes, and a sentence with the next step. */
export interface NamespaceFault {
  readonly kind: 'namespace' | 'attributes'
  readonly detail: string
}

/**
 * @returns undefined if nothing is wrong. Without the right to read the search attributes they count as right
 * @throws errors of the service, if it does not answer
 */
export async function findNamespaceFault(
  services: Services,
  namespace: string,
): Promise<NamespaceFault | undefined> {
  if (!(await exists(services, namespace))) {
    const detail = `The namespace "${namespace}" does not exist in Temporal. Run \`tenon migrate\`, which makes it, or correct TEMPORAL_NAMESPACE.`
    return { kind: 'namespace', detail }
  }
  const detail = await findAttributesFault(services, namespace)
  return detail === undefined ? undefined : { kind: 'attributes', detail }
}

async function findAttributesFault(services: Services, namespace: string): Promise<string | undefined> {
  const types = await readAttributes(services, namespace)
  if (types === undefined) return undefined
  const missing = ATTRIBUTES.flatMap(([name]) => (types[name] === undefined ? [name] : []))
  if (missing.length > 0)
    return `The namespace "${namespace}" of Temporal lacks the search attributes ${missing.join(', ')}. Run \`tenon migrate\`, which adds them.`
  const others = ATTRIBUTES.flatMap(([name, type]) =>
    types[name] === type ? [] : [`${name} (${SEARCH_ATTRIBUTES[name as keyof typeof SEARCH_ATTRIBUTES]})`],
  )
  if (others.length === 0) return undefined
  return `The search attributes ${others.join(', ')} of the namespace "${namespace}" have another type. Use another namespace: a type cannot be changed.`
}

/**
 * Makes the namespace and its search attributes, as far as they are missing. Idempotent.
 * @returns what was made, in words
 * @throws Error with a sentence if Temporal does not permit it; errors of the service
 */
export async function ensureNamespace(services: Services, namespace: string): Promise<string[]> {
  const made: string[] = []
  if (!(await exists(services, namespace))) {
    await permitted(`make the namespace "${namespace}"`, () =>
      services.workflowService.registerNamespace({
        namespace,
        workflowExecutionRetentionPeriod: msToTs(RETENTION_MS),
      }),
    )
    made.push(`namespace ${namespace}`)
  }
  const types = await whenKnown(() => readAttributes(services, namespace))
  const missing = ATTRIBUTES.filter(([name]) => types !== undefined && types[name] === undefined)
  if (missing.length === 0) return made
  const names = missing.map(([name]) => name).join(', ')
  const searchAttributes = Object.fromEntries(missing)
  await whenKnown(() =>
    permitted(`add the search attributes ${names}`, () =>
      services.operatorService.addSearchAttributes({ namespace, searchAttributes }),
    ),
  )
  return [...made, `search attributes ${names}`]
}

async function exists({ workflowService }: Services, namespace: string): Promise<boolean> {
  try {
    await workflowService.describeNamespace({ namespace })
    return true
  } catch (error) {
    if (grpcCode(error) === GRPC.NOT_FOUND) return false
    throw error
  }
}

/** Types of the search attributes by name; undefined if Temporal does not tell them. */
async function readAttributes(
  { operatorService }: Services,
  namespace: string,
): Promise<Readonly<Record<string, number>> | undefined> {
  try {
    const { customAttributes } = await operatorService.listSearchAttributes({ namespace })
    return (customAttributes ?? {}) as Record<string, number>
  } catch (error) {
    if (HIDDEN.includes(grpcCode(error) ?? 0)) return undefined
    throw error
  }
}

const HIDDEN: readonly number[] = [GRPC.PERMISSION_DENIED, GRPC.UNIMPLEMENTED, GRPC.UNAUTHENTICATED]

async function permitted<T>(what: string, work: () => Promise<T>): Promise<T> {
  return work().catch((error: unknown) => {
    if (!HIDDEN.includes(grpcCode(error) ?? 0)) throw error
    throw new Error(
      `Temporal does not let this program ${what}. Do it with the rights of its administrator.`,
      {
        cause: error,
      },
    )
  })
}

/** Repeats work while a part of Temporal does not know the new namespace yet. */
const whenKnown = <T>(work: () => Promise<T>): Promise<T> =>
  retryTransient(KNOWN_MS, work, (error) => grpcCode(error) === GRPC.NOT_FOUND, { min: 100, max: 1_000 })
