/** The identity providers of a workspace, in its setting `auth`: where users sign in with OpenID Connect. */

import Type, { type Static } from 'typebox'
import { component } from '../../../core/components/component.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { VISIBLE_PATTERN } from '../../../core/text/visible-text.ts'
import { purposeIn, type Secrets } from '../../../infra/crypto/secrets.ts'
import { hostAndPort } from '../../../infra/http-client/egress.ts'
import { ISSUER_LIMITS } from '../limits.ts'

const ID_PATTERN = '^[a-z][a-z0-9-]{0,29}$'

/** How users get into the workspace. */
export const SignUp = Type.Unsafe<'off' | 'invite' | 'open'>(
  Type.String({
    enum: ['off', 'invite', 'open'],
    description:
      'Ways in which users join the workspace. `off`: no new users; `invite`: by invitation of an admin; `open`: also by signing up. Default: `off`.',
  }),
)

const COMMON = {
  id: Type.String({
    pattern: ID_PATTERN,
    description: 'Id of the provider, which is part of the redirect URI.',
  }),
  name: Type.String({
    minLength: 1,
    maxLength: CORE_LIMITS.nameCharsMax,
    pattern: VISIBLE_PATTERN,
    description: 'Name of the provider on the sign-in page: "Continue with …".',
  }),
  issuer: Type.String({
    maxLength: 500,
    description:
      'Issuer identifier of the provider, with a discovery document (OpenID Connect Discovery 1.0). `http` is allowed only at an address in `egress.allow`.',
  }),
  client_id: Type.String({ minLength: 1, maxLength: 200, pattern: '^[\\x21-\\x7e]+$' }),
  sign_up: Type.Optional(
    Type.Unsafe<'invite' | 'open'>(
      Type.String({
        enum: ['invite', 'open'],
        description:
          'Rule for sign-ins without a user account in the workspace. `open`: the account is created; `invite`: an invitation is required. Default: the `sign_up` of the workspace.',
      }),
    ),
  ),
}

const ProviderInput = Type.Object(
  {
    ...COMMON,
    client_secret: Type.Optional(
      Type.String({
        minLength: 8,
        maxLength: 500,
        pattern: '^[\\x20-\\x7e]+$',
        writeOnly: true,
        description:
          'Client secret at the provider, which is never returned. If absent, the stored secret is kept as long as `issuer` and `client_id` are the same; a public client has none.',
      }),
    ),
  },
  { additionalProperties: false },
)
type ProviderInput = Static<typeof ProviderInput>

export const ProvidersInput = Type.Array(ProviderInput, {
  maxItems: ISSUER_LIMITS.users.providersMax,
  description: 'Identity providers; a new list replaces all of them.',
})

/** A provider as admins see it. */
export const Provider = component(
  'IdentityProvider',
  Type.Object({
    ...COMMON,
    has_secret: Type.Boolean(),
    redirect_uri: Type.String({ description: 'Redirect URI to register at the provider.' }),
  }),
  {
    id: 'club',
    name: 'Club account',
    issuer: 'https://login.tennis.example',
    client_id: 'bookings',
    has_secret: true,
    redirect_uri: 'https://api.tennis.example/auth/callback/club',
  },
)
export type Provider = Static<typeof Provider>

/**
 * A provider as the database has it. `sealed` is the encrypted client secret, in base64url. `set_by` is the subject that set the
 * issuer, who may be able to sign in there as anybody.
 */
export type StoredProvider = Omit<ProviderInput, 'client_secret'> & {
  readonly sealed?: string
  readonly set_by: string
}

/** Checks and encrypts the providers of a workspace. */
export class ProviderSettings {
  readonly #secrets: Secrets
  readonly #publicUrl: string

  /** @param publicUrl of the API */
  constructor(secrets: Secrets, publicUrl: string) {
    this.#secrets = secrets
    this.#publicUrl = publicUrl
  }

  /**
   * @param stored the present ones, whose secrets stay @param egressAllowed `host:port` texts that may be reached at any address
   * @param by the subject that sets them
   * @throws Problem `validation_failed`
   */
  toStore(
    ref: WorkspaceRef,
    providers: readonly ProviderInput[],
    {
      stored,
      egressAllowed,
      by,
    }: { stored: readonly StoredProvider[]; egressAllowed: readonly string[]; by: string },
  ): StoredProvider[] {
    for (const [index, { id, issuer }] of providers.entries()) {
      if (providers.findIndex((one) => one.id === id) !== index)
        throw settingProblem(`/auth/providers/${index}/id`, 'is there twice')
      if (!isIssuer(issuer, egressAllowed))
        throw settingProblem(
          `/auth/providers/${index}/issuer`,
          'is no https URL without credentials, query and fragment',
        )
    }
    return providers.map(({ client_secret: secret, ...provider }) => {
      const before = stored.find((one) => providerPurpose(ref, one) === providerPurpose(ref, provider))
      const sealed = secret === undefined ? before?.sealed : this.#seal(ref, provider, secret)
      const set_by = stored.find(({ issuer }) => issuer === provider.issuer)?.set_by ?? by
      return { ...provider, set_by, ...(sealed !== undefined && { sealed }) }
    })
  }

  toShow({ workspaceId }: Pick<WorkspaceRef, 'workspaceId'>, stored: readonly StoredProvider[]): Provider[] {
    return stored.map(({ sealed, set_by: _by, ...provider }) => ({
      ...provider,
      has_secret: sealed !== undefined,
      redirect_uri: this.redirectUri({ workspaceId }, provider.id),
    }))
  }

  /** The redirect URI of one provider. Each has its own, which prevents mix-up attacks (RFC 9700 §4.4). */
  redirectUri({ workspaceId }: Pick<WorkspaceRef, 'workspaceId'>, id: string): string {
    return `${this.#publicUrl}/auth/providers/${workspaceId}/${id}/callback`
  }

  /** The client secret; undefined for a public client. */
  secretOf(ref: WorkspaceRef, provider: StoredProvider): string | undefined {
    if (provider.sealed === undefined) return undefined
    return this.#secrets
      .open(providerPurpose(ref, provider), Buffer.from(provider.sealed, 'base64url'))
      .toString()
  }

  #seal(ref: WorkspaceRef, provider: ProviderInput, secret: string): string {
    return this.#secrets.seal(providerPurpose(ref, provider), Buffer.from(secret)).toString('base64url')
  }
}

/** A secret is bound to the issuer and the client that it was given for. */
export const providerPurpose = (ref: WorkspaceRef, { id, issuer, client_id }: ProviderInput): string =>
  purposeIn(ref, `identity-provider:${JSON.stringify([id, issuer, client_id])}`)

/** True for an issuer identifier (OpenID Connect Discovery 1.0 §2), or one over http at an address that an operator has opened. */
function isIssuer(text: string, egressAllowed: readonly string[]): boolean {
  if (!URL.canParse(text) || /[?#\s]/.test(text)) return false
  const url = new URL(text)
  if (url.username !== '' || url.password !== '') return false
  return url.protocol === 'https:' || (url.protocol === 'http:' && egressAllowed.includes(hostAndPort(url)))
}

/** @param pointer to a member of the request to configure a workspace, such as `/auth/branding/color` */
export function settingProblem(pointer: string, detail: string): Problem {
  const name = pointer.slice(1).replaceAll('/', '.')
  const errors = [{ in: 'body', name, pointer, detail }] as const
  return new Problem('validation_failed', { detail: `${name} ${detail}.`, errors })
}
