/** The setting OIDC_ISSUERS: which issuers elsewhere are believed, what they may say, and where in a token it stands. */

import { readFileSync } from 'node:fs'
import Type, { type Static } from 'typebox'
import { Value } from 'typebox/value'
import { idPattern } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'

const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA'] as const
const MAPPABLE = ['operator', 'tenant_admin', 'workspace_admin', 'service', 'anon'] as const

const Name = Type.String({ minLength: 1, maxLength: LIMITS.nameCharsMax })
const Path = (description: string) =>
  Type.Optional(Type.Union([Name, Type.Array(Name, { minItems: 1, maxItems: 10 })], { description }))

const IssuerSchema = Type.Object({
  issuer: Type.String({
    pattern: '^https?://[^\\s?#]+$',
    maxLength: LIMITS.nameCharsMax,
    description: 'The `iss` of its tokens, byte for byte: an https URL, or http of a loopback address.',
  }),
  audience: Type.Union([Name, Type.Array(Name, { minItems: 1, maxItems: 10 })], {
    description: 'What `aud` of a token names: one of these at least.',
  }),
  jwks_uri: Type.Optional(
    Type.String({
      pattern: '^https?://\\S+$',
      description: 'Where its keys are, as an URL like that of the issuer; by OIDC discovery where absent.',
    }),
  ),
  algorithms: Type.Optional(
    Type.Array(Type.Enum([...ALGORITHMS]), {
      minItems: 1,
      description: `Which of ${ALGORITHMS.join(', ')} it signs with; all where absent.`,
    }),
  ),
  typ: Type.Optional(
    Type.Enum(['at+jwt', 'JWT'], {
      description: 'The `typ` of its access tokens: at+jwt (default), or JWT.',
    }),
  ),
  claims: Type.Optional(
    Type.Object(
      {
        tenant: Path('tenant'),
        workspace: Path('workspace'),
        roles: Path('roles'),
        scope: Path('scope'),
      },
      {
        additionalProperties: false,
        description: 'Where tenant, workspace, roles and scope stand: a path with dots, or a list of names.',
      },
    ),
  ),
  roles: Type.Optional(
    Type.Record(Type.String(), Type.Enum([...MAPPABLE]), {
      description: `What its roles are here: ${MAPPABLE.join(', ')}. Where absent, the same without operator.`,
    }),
  ),
  tenants: Type.Union(
    [Type.Literal('*'), Type.Array(Type.String({ pattern: idPattern('ten') }), { minItems: 1 })],
    { description: 'For which tenants it may speak: a list of their ids, or "*" for all.' },
  ),
})

type Given = Static<typeof IssuerSchema>
type ClaimPath = readonly string[]

/** An issuer that is believed, with its defaults. */
export interface TrustedIssuer {
  readonly issuer: string
  readonly audience: readonly string[]
  readonly jwksUri: string | undefined
  readonly algorithms: readonly string[]
  readonly typ: string
  readonly claims: {
    readonly tenant: ClaimPath
    readonly workspace: ClaimPath
    readonly roles: ClaimPath
    readonly scope: ClaimPath
  }
  /** Its roles → ours. */
  readonly roles: ReadonlyMap<string, string>
  /** undefined: every tenant. */
  readonly tenants: ReadonlySet<string> | undefined
}

/**
 * @param text the setting: a JSON list, the path of a file that holds one, or empty
 * @returns the issuers, and a line for everything that is wrong; values are not shown
 */
export function readIssuers(text: string): { issuers: TrustedIssuer[]; faults: string[] } {
  if (text.trim() === '') return { issuers: [], faults: [] }
  const { list, fault } = listOf(text.trim())
  if (list === undefined) return { issuers: [], faults: [fault] }
  const faults = list.flatMap((entry, at) => faultsOf(entry).map((line) => `[${at}]${line}`))
  if (faults.length > 0) return { issuers: [], faults }
  const issuers = (list as Given[]).map(settled)
  if (new Set(issuers.map(({ issuer }) => issuer)).size < issuers.length)
    return { issuers, faults: [' names an issuer twice.'] }
  return { issuers, faults: [] }
}

type List = { list: unknown[]; fault?: never } | { list?: never; fault: string }

function listOf(text: string): List {
  let value: unknown
  try {
    value = JSON.parse(text.startsWith('[') ? text : readFileSync(text, 'utf8'))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return {
      fault: code === undefined ? ' is no valid JSON.' : ` names a file that cannot be read: ${code}.`,
    }
  }
  if (Array.isArray(value) && value.length <= LIMITS.externalIssuers.max) return { list: value }
  return { fault: ` is no list of at most ${LIMITS.externalIssuers.max} issuers.` }
}

function faultsOf(entry: unknown): string[] {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return [' is no object.']
  const given = new Map(Object.entries(entry))
  const unknown = [...given.keys()].filter((name) => !Object.hasOwn(IssuerSchema.properties, name))
  const faults = Object.entries(IssuerSchema.properties).flatMap(([name, schema]) => {
    const { description = '' } = schema as { description?: string }
    if (!given.has(name))
      return IssuerSchema.required.includes(name as never) ? [`.${name} is missing. ${description}`] : []
    return Value.Check(schema, given.get(name)) ? [] : [`.${name} is not valid. ${description}`]
  })
  faults.push(...unknown.map((name) => `.${name} is no setting of an issuer.`))
  return faults.length > 0 ? faults : contradictions(entry as Given)
}

/** What is of the right form, and dangerous or senseless all the same. */
function contradictions({ issuer, jwks_uri: jwksUri, roles, tenants }: Given): string[] {
  const faults: string[] = []
  if (!isSafe(issuer)) faults.push('.issuer is neither https nor a loopback address.')
  if (jwksUri !== undefined && !isSafe(jwksUri))
    faults.push('.jwks_uri is neither https nor a loopback address.')
  if (tenants !== '*' && Object.values(roles ?? {}).includes('operator'))
    faults.push('.roles gives the role operator, which reaches every tenant, but tenants is not "*".')
  return faults
}

/** Whoever can change the keys on their way can sign any token. */
function isSafe(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' || ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
}

function settled(given: Given): TrustedIssuer {
  const { claims = {}, roles, tenants } = given
  const own = MAPPABLE.filter((role) => role !== 'operator').map((role) => [role, role] as const)
  return {
    issuer: given.issuer,
    audience: [given.audience].flat(),
    jwksUri: given.jwks_uri,
    algorithms: given.algorithms ?? ALGORITHMS,
    typ: given.typ ?? 'at+jwt',
    claims: {
      tenant: pathOf(claims.tenant ?? 'tenant_id'),
      workspace: pathOf(claims.workspace ?? 'workspace_id'),
      roles: pathOf(claims.roles ?? 'realm_access.roles'),
      scope: pathOf(claims.scope ?? 'scope'),
    },
    roles: new Map(roles === undefined ? own : Object.entries(roles)),
    tenants: tenants === '*' ? undefined : new Set(tenants),
  }
}

const pathOf = (path: string | string[]): ClaimPath => (typeof path === 'string' ? path.split('.') : path)
