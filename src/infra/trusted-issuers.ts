/** The setting OIDC_ISSUERS: external issuers that are trusted, for which tenants and roles, and where their claims are. */

import { readFileSync } from 'node:fs'
import Type, { type Static } from 'typebox'
import { Value } from 'typebox/value'
import { idPattern } from '../core/ids.ts'
import { CORE_LIMITS } from '../core/limits.ts'
import { INFRA_LIMITS } from './limits.ts'

const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA'] as const
const MAPPABLE = [
  'operator',
  'tenant_admin',
  'workspace_admin',
  'developer',
  'viewer',
  'payload_reader',
  'service',
  'user',
  'anon',
] as const

const Name = Type.String({ minLength: 1, maxLength: CORE_LIMITS.nameCharsMax })
const Path = (description: string) =>
  Type.Optional(Type.Union([Name, Type.Array(Name, { minItems: 1, maxItems: 10 })], { description }))

const IssuerSchema = Type.Object({
  issuer: Type.String({
    pattern: '^https?://[^\\s?#]+$',
    maxLength: CORE_LIMITS.nameCharsMax,
    description: 'The `iss` of its tokens, byte for byte: an https URL, or http of a loopback address.',
  }),
  audience: Type.Union([Name, Type.Array(Name, { minItems: 1, maxItems: 10 })], {
    description: 'Audiences. The `aud` of a token must have at least one of them.',
  }),
  jwks_uri: Type.Optional(
    Type.String({
      pattern: '^https?://\\S+$',
      description:
        'URL of the key set of the issuer, https or of a loopback address. Default: the `jwks_uri` of its discovery document.',
    }),
  ),
  algorithms: Type.Optional(
    Type.Array(Type.Enum([...ALGORITHMS]), {
      minItems: 1,
      description: `Signature algorithms of the issuer, some of ${ALGORITHMS.join(', ')}. Default: all.`,
    }),
  ),
  typ: Type.Optional(
    Type.Enum(['at+jwt', 'JWT'], {
      description: 'The `typ` of access tokens: at+jwt or JWT. Default: at+jwt.',
    }),
  ),
  claims: Type.Optional(
    Type.Object(
      {
        tenant: Path('tenant'),
        workspace: Path('workspace'),
        roles: Path('roles'),
        scope: Path('scope'),
        groups: Path('groups'),
        user: Path('user'),
      },
      {
        additionalProperties: false,
        description:
          'Claims that contain tenant, workspace, roles, scope, groups, and the claims of an end user: a dotted path, or a list of names.',
      },
    ),
  ),
  roles: Type.Optional(
    Type.Record(Type.String(), Type.Enum([...MAPPABLE]), {
      description: `Map from roles of the issuer to ${MAPPABLE.join(', ')}. Default: the same names, without operator and payload_reader.`,
    }),
  ),
  tenants: Type.Union(
    [Type.Literal('*'), Type.Array(Type.String({ pattern: idPattern('ten') }), { minItems: 1 })],
    { description: 'The tenants that its tokens may name: a list of ids, or "*" for all.' },
  ),
})

type Given = Static<typeof IssuerSchema>

/** A trusted issuer, with its defaults. */
export type TrustedIssuer = Readonly<ReturnType<typeof withDefaults>>

/**
 * @param text the setting: a JSON list, the path of a file that holds one, or empty
 * @returns the issuers, and a line for each fault, without values
 */
export function readIssuers(text: string): { issuers: TrustedIssuer[]; faults: string[] } {
  if (text.trim() === '') return { issuers: [], faults: [] }
  const { list, fault } = listOf(text.trim())
  if (list === undefined) return { issuers: [], faults: [fault] }
  const faults = list.flatMap((entry, at) => entryFaults(entry).map((line) => `[${at}]${line}`))
  if (faults.length > 0) return { issuers: [], faults }
  const issuers = (list as Given[]).map(withDefaults)
  if (new Set(issuers.map(({ issuer }) => issuer)).size < issuers.length)
    return { issuers, faults: [' names an issuer twice.'] }
  return { issuers, faults: [] }
}

function listOf(text: string): { list?: unknown[]; fault: string } {
  let value: unknown
  try {
    value = JSON.parse(text.startsWith('[') ? text : readFileSync(text, 'utf8'))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return {
      fault: code === undefined ? ' is not valid JSON.' : ` names a file that cannot be read: ${code}.`,
    }
  }
  const fault = ` must be a list of at most ${INFRA_LIMITS.externalIssuersMax} issuers.`
  return Array.isArray(value) && value.length <= INFRA_LIMITS.externalIssuersMax
    ? { list: value, fault }
    : { fault }
}

function entryFaults(entry: unknown): string[] {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return [' must be an object.']
  const fields = new Map(Object.entries(entry))
  const unknown = [...fields.keys()].filter((name) => !Object.hasOwn(IssuerSchema.properties, name))
  const faults = Object.entries(IssuerSchema.properties).flatMap(([name, schema]) => {
    const { description = '' } = schema as { description?: string }
    if (!fields.has(name))
      return IssuerSchema.required.includes(name as never) ? [`.${name} is missing. ${description}`] : []
    return Value.Check(schema, fields.get(name)) ? [] : [`.${name} is not valid. ${description}`]
  })
  faults.push(...unknown.map((name) => `.${name} is not a setting of an issuer.`))
  return faults.length > 0 ? faults : contradictions(entry as Given)
}

/** Settings that are well formed, but dangerous or contradictory. */
function contradictions({ issuer, jwks_uri: jwksUri, roles, tenants }: Given): string[] {
  const faults: string[] = []
  if (!isSafe(issuer)) faults.push('.issuer must be an https URL, or http of a loopback address.')
  if (jwksUri !== undefined && !isSafe(jwksUri))
    faults.push('.jwks_uri must be an https URL, or http of a loopback address.')
  if (tenants !== '*' && Object.values(roles ?? {}).includes('operator'))
    faults.push('.roles grants the role operator, which has access to every tenant, so tenants must be "*".')
  return faults
}

/** Keys must not be changed in transit: with them any token can be signed. */
function isSafe(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' || ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
}

function withDefaults({ issuer, audience, jwks_uri, algorithms, typ, claims, roles, tenants }: Given) {
  const own = MAPPABLE.filter((role) => role !== 'operator' && role !== 'payload_reader').map(
    (role) => [role, role] as const,
  )
  return {
    issuer,
    audience: [audience].flat(),
    jwksUri: jwks_uri,
    algorithms: algorithms ?? ALGORITHMS,
    typ: typ ?? 'at+jwt',
    claims: {
      tenant: pathOf(claims?.tenant ?? 'tenant_id'),
      workspace: pathOf(claims?.workspace ?? 'workspace_id'),
      roles: pathOf(claims?.roles ?? 'realm_access.roles'),
      scope: pathOf(claims?.scope ?? 'scope'),
      /** Undefined: its tokens name no groups. */
      groups: claims?.groups === undefined ? undefined : pathOf(claims.groups),
      /** An object, for `$user.claims` in rules. */
      user: pathOf(claims?.user ?? 'claims'),
    },
    /** Its roles → ours. */
    roles: new Map<string, string>(roles === undefined ? own : Object.entries(roles)),
    /** Undefined: every tenant. */
    tenants: tenants === '*' ? undefined : new Set(tenants),
  }
}

const pathOf = (path: string | string[]): readonly string[] =>
  typeof path === 'string' ? path.split('.') : path
