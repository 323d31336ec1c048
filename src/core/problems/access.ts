/** What credentials and rights can be refused for. */

import type { Row } from './row.ts'

export const ACCESS = {
  credentials_conflict: {
    status: 400,
    title: 'Credentials that contradict each other in one request',
    help: 'Send one key, in one place, and each header once.',
  },
  credentials_missing: {
    status: 401,
    title: 'No credential was sent',
    help: 'Send `apikey: svc_…` on data routes, `Authorization: Bearer <token>` on administrative ones.',
  },
  api_key_invalid: {
    status: 401,
    title: 'The API key is not valid',
    help: 'Check for a cut or revoked key.',
  },
  api_key_expired: { status: 401, title: 'The API key has expired', help: 'Create a new one.' },
  api_key_disabled: {
    status: 401,
    title: 'The API key is disabled',
    help: 'An admin can enable it: PATCH /v1/api-keys/{id}.',
  },
  api_key_revoked: { status: 401, title: 'The API key was revoked', help: 'Create a new one.' },
  token_invalid: {
    status: 401,
    title: 'The access token is not valid',
    help: 'Get a new one: `npx tenon token`.',
  },
  token_expired: {
    status: 401,
    title: 'The access token has expired',
    help: 'Get a new one: `npx tenon token`.',
  },
  signature_invalid: {
    status: 401,
    title: 'The signature is not valid',
    help: 'Sign as Standard Webhooks says, with the secret of this address, and send it within five minutes.',
  },
  gateway_identity_invalid: {
    status: 401,
    title: 'The gateway names nobody',
    help: 'A gateway sends x-tenant-id, x-workspace-id, x-auth-subject and x-pg-role (anon or service), each once.',
  },
  service_key_in_query: {
    status: 401,
    title: 'A key was sent in the URL',
    help: 'URLs end in logs: revoke that key, and send the next one in the `apikey` header.',
  },
  privilege_domain_mismatch: {
    status: 403,
    title: 'This kind of credential does not fit the route',
    help: 'Administrative routes take an operator or tenant-admin token, data routes an API key.',
  },
  forbidden: {
    status: 403,
    title: 'The credential may not do this',
    help: 'Ask for a credential with a higher role.',
  },
  host_not_allowed: {
    status: 403,
    title: 'The server has no such host name',
    help: 'Use its public URL. Other names that a proxy sends on are listed in TENON_MCP_HOSTS.',
  },
  insufficient_scope: {
    status: 403,
    title: 'The credential lacks a scope',
    help: 'Use a key or a token with the scopes that `www-authenticate` names.',
  },
  tenant_suspended: { status: 403, title: 'The tenant is suspended', help: 'An operator can resume it.' },
  workspace_suspended: {
    status: 403,
    title: 'The workspace is suspended',
    help: 'An admin of the tenant, or an operator, can resume it.',
  },
  feature_not_enabled: {
    status: 403,
    title: 'The feature is not switched on',
    help: 'It is experimental: an admin switches it on with POST /v1/services/configure.',
  },
  rate_limited: {
    status: 429,
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Too many requests',
    help: 'Wait for as long as `Retry-After` says. `GET /v1/limits` shows your limits.',
  },
  quota_exceeded: { status: 429, title: 'A quota is used up', help: 'Free some of it, or ask for more.' },
  concurrency_limited: {
    status: 429,
    title: 'As many executions of the flow run as may',
    help: 'Try again when one has ended, or let the flow queue them (`onLimit: queue`).',
  },
} as const satisfies Record<string, Row>
