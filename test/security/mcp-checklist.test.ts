/**
 * The numbered security checklist of MCP: each number has its tests, or the reason why there is nothing to test. Titles
 * end with their number: `npm test -- -t T14`.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

/** Titles of tests by number, or how they begin. */
const TESTS: Readonly<Record<string, readonly string[]>> = {
  T1: [
    'MCP endpoint under any other Host: 403, or 400 for what is none, with and without a token (T1)',
    'page of an allowed origin: preflight answered, replies readable; of another one: neither (T1)',
  ],
  T2: ['two hundred concurrent calls of two tenants with the same ids: responses never mix (T2)'],
  T3: ['batch: refused as a whole (T3)'],
  T4: [
    'arguments outside the schema: refused; hostile strings are treated as plain values (T4, T32)',
    'wrong method, origin, content type or size: refused with its status (T4, T6)',
  ],
  T5: [
    'protocol 2026-07-28: headers that differ from the body, unknown versions and unknown methods are refused (T5)',
    'header of %s: refused in both forms, recorded, not run (T5)',
    'token that only reads, header of a tool that reads over a body that deletes: the scope of the body counts (T5)',
  ],
  T6: ['wrong method, origin, content type or size: refused with its status (T4, T6)'],
  T7: ['a session is of one client at one server; an unknown, changed or foreign one is 404 (T7)'],
  T8: [
    'GET: 405 without a session, 404 with one of another client; what is missed is told again, and is not stored (T8)',
  ],
  T9: ['streams and resources of a stream have a limit; a refusal leaves other streams open (T9)'],
  T10: [
    'message of %s: refused (T10)',
    'resources/read (T10)',
    'completion/complete and prompts/get with %s: answered (T10)',
    'prompt with many members, or none that is declared: refused in short (T10)',
    'tools/call (T10)',
    'message of many members, in one object or in many: refused before it is converted (T10)',
    'log of these calls: entries are short, and the chain holds (T10)',
  ],
  T11: ['any wrong token: the same 401 invalid_token (T11)'],
  T12: ['token of a server used elsewhere: 401 (T12)', '%s: 401 as for any other (T12, T13)'],
  T13: [
    'unpublished server: the same 404 with and without a token (T13)',
    'of an issuer for one tenant, which names another: refused by the server of the other (T13)',
  ],
  T14: [
    'scope widened afterwards: its tokens and refreshed tokens do not reach the new tool (T14)',
    'another server at the same URL: tokens are not refreshed for it, and its consent page is shown (T14)',
  ],
  T15: [
    'documents: not readable without the scope of their tool; recorded as calls of it (T15)',
    '%s: each step of the gate: %s (T15, T28)',
    'tool without its scope, called through tool_call: the challenge, refusal and entry of a direct call (T15)',
    'token without the scope: no resource; reads are recorded as calls of the tool (T15)',
    'any token of another server, tenant or audience: 401, and nothing of the server (T15, T39)',
    'own token: data (T15, T39)',
  ],
  T16: ['client without a person: shown what its token allows (T16)'],
  T17: [
    'refresh token of its family presented again after its grace: ends (T17)',
    'one of two: its tokens end within 5 s on every node, the other stays; recorded in the tenant (T17)',
  ],
  T18: [
    'arguments in their places, with the secret of the source; the token of the client stays here (T18)',
    'described as there, called with the credentials of the source and nothing of the caller (T18, T43)',
  ],
  T19: [
    'client registration: %s: refused (T19)',
    'client registration: limit of an address: refused; unused clients: removed (T19)',
    'faulty, large, slow or redirected document: refused with the reason, and not read again at once (T19)',
    'private, link-local or unlisted address, or no https: no request is sent (T19)',
  ],
  T20: [
    'page: any: restrictive headers, escaped values (T20)',
    'page: form from another browser or site: refused (T20)',
    'hostile name of a client: escaped; no scripts, never in a frame (T20)',
  ],
  T21: ['forged Host header: metadata shows the configured address (T21)'],
  T22: ['no token: 401 that names the metadata and the scopes, without an error (T22)'],
  T23: [
    'suspect text: waits for approval, also with `accept`; not again once it is approved (T23)',
    'hidden text in the schema of a source: refused, with its place (T23)',
    'poisoned document: hidden characters are refused, orders to models wait for approval (T23)',
    'tools with hostile names, schemas and texts: left out, with the reason (T23, T26, T31)',
  ],
  T24: [
    'document that changes: drift, the pinned tools stay; accepted by its hash alone (T24)',
    '%s: the tool is refused, the others go on, and what was published works again (T24)',
    'renamed and new: the old one is refused, the new one is a candidate only after it is accepted (T24)',
    'function tool, function redeployed: the old version runs until the next publication (T24)',
    'flow tool, flow published again: the old version runs on every path until the next publication (T24)',
  ],
  T25: [
    'draft changed: visible after publication with a diff; reactivating the old version restores it byte by byte (T25)',
  ],
  T26: ['name with a look-alike letter (T26)', 'names that differ in case (T26)', 'name of 65 letters (T26)'],
  T27: [
    'destructive tool declared as harmless (T27)',
    'hints of the server: strict until the curation trusts them, and no further than they go (T27)',
  ],
  T28: [
    'result: sent as text and as structured content; as fenced text alone to clients without a version (T28)',
    '%s: each step of the gate: %s (T15, T28)',
    'content passes, texts are fenced, secrets are masked, errors are those of the tool (T28, T29)',
  ],
  T29: ['secrets in a document: masked in results (T29)'],
  T30: [
    'schema that changed after publication: the tool says that it is outdated (T30)',
    'one document that is too large: the fields that fit, and how to read the others (T30)',
    '10 MB of base64 or of an image: refused on the way in, a link on the way out (T30)',
    'content by its type: image, audio, embedded file; what is no UTF-8 is no text (T30)',
    'upstream answers %s: a bounded result that says so, fenced (T30)',
  ],
  T31: ['$ref %s: the operation is no tool, and nothing is fetched (T31)'],
  T32: [
    'arguments outside the schema: refused; hostile strings are treated as plain values (T4, T32)',
    'argument %j of a path: refused, nothing is sent (T32)',
    'any text: stays in its segment, or is refused (T32)',
    'keys and buckets in arguments: no way out of the own bucket (T32)',
  ],
  T33: [
    'redirect to another server: never reached, and no credentials arrive (T33)',
    'addresses that are closed, redirects, and missing secrets: refused without a request (T33)',
    'addresses that are not public, documents that move or are too large: refused (T33)',
    'server of another origin: gets the headers of the source only if the admin confirms it (T33)',
  ],
  T34: ['forms that ask for secrets, and pages of other hosts, are not sent (T34)'],
  T35: [
    'long flow: a handle, which another client cannot use; cancelled by its starter (T35)',
    'an execution that goes on is a task of its starter alone; cancelled once, acknowledged twice (T35)',
    'handle of another principal, server or tenant, expired or without the scope: as unknown (T35)',
  ],
  T36: [
    'a state that was changed, or is of other arguments, another client or another tool, is refused (T36)',
  ],
  T37: [
    'client that disconnects: the execution goes on (T37)',
    'worker and API killed during calls of flows: each call is one execution, which the same token follows to its result (T37)',
  ],
  T38: [
    'function tool called with a version: argument refused (T38)',
    'server of another workspace, by its id: unknown (T38)',
  ],
  T39: [
    'tables of the sweep: list every operation once and nothing else (T39)',
    'sessions at the server: one for each caller, none shared between workspaces (T39)',
    'any token of another server, tenant or audience: 401, and nothing of the server (T15, T39)',
    'what was refused is recorded as denied, and has run nothing (T15, T39)',
  ],
  T40: [
    'rate of a tool: shared by callers, entry points and processes; other tools, servers and tenants go on (T40)',
    'hosted MCP server: one client: limited by subject (T40)',
    '%s: then the rate of the tool (T40)',
  ],
  T41: ['%s: exactly one entry (T41)', 'end and head forged: detected with an anchor kept elsewhere (T41)'],
  T42: [
    'arguments of the engine: have %j (T42)',
    'arguments of the engine: nothing of the host, nothing that weakens, and the tenant’s only after the image (T42)',
    'hostile image %j: no reference (T42)',
    'variables: names that are none, secrets in clear, and values of several lines: refused (T42)',
    'image: runs hardened for one call, gets its secrets by a file alone, and is removed (T42)',
    'server that has started others: all end together (T42)',
  ],
  T43: [
    'described as there, called with the credentials of the source and nothing of the caller (T18, T43)',
    'server that %s: a clear error (T43)',
    'servers that flood, hang, end, forge or ask back: a clear error, and nothing is left (T43)',
    'names of tools of other servers: within the source, or left out (T43)',
  ],
  T44: [
    'unpublished, suspended or deleted: 404; recreated under the same address: old tokens get 401 (T44)',
    'an admin of the tenant sees owner, last call and exposure of every server of all its workspaces, and no others (T44)',
  ],
  T45: [
    'commands: only those of the operator run on the host, by name (T45)',
    'server of the operator: takes no arguments and no variables of a tenant (T45)',
    'commands for development: refused where other machines reach the platform (T45)',
  ],
}

/** Numbers without a test of that kind. */
const OTHERWISE: Readonly<Record<string, string>> = {
  T46: '`npm run conformance:mcp` and `npm run conformance:mcp -- clients`, which fetch the suites and the clients of others.',
}

const files = readdirSync('test', { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.test.ts'),
)
const sources = files
  .filter((name) => !name.endsWith('mcp-checklist.test.ts'))
  .map((name) => readFileSync(join('test', name), 'utf8'))

test('numbers of the checklist: each is tested, or says why not', () => {
  const numbers = Array.from({ length: 46 }, (_, n) => `T${n + 1}`)
  expect([...Object.keys(TESTS), ...Object.keys(OTHERWISE)].sort()).toEqual(numbers.sort())
})

test.each(Object.entries(TESTS))('%s: its tests exist, and their titles name it', (number, titles) => {
  const isNamed = (title: string) => new RegExp(`\\b${number}\\b`).test(title)
  const exists = (title: string) => sources.some((source) => source.includes(`'${title}`))
  expect(titles.filter((title) => !isNamed(title) || !exists(title))).toEqual([])
})

test('packages: no version with a known fault of MCP, no bridge to local processes', () => {
  const { dependencies, devDependencies } = JSON.parse(readFileSync('package.json', 'utf8'))
  const [major, minor] = dependencies['@modelcontextprotocol/sdk'].split('.').map(Number)
  expect(major > 1 || minor >= 26).toBe(true)
  const names = Object.keys({ ...dependencies, ...devDependencies })
  expect(names.filter((name) => /mcp-remote|modelcontextprotocol\/inspector/.test(name))).toEqual([])
})
