/** Container images as sources: MCP servers over standard input and output, with a container of its own for each call. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import { redactText } from '../../../core/redact.ts'
import { readSecretValues } from '../../flows/secrets.ts'
import { requireFeature } from '../../tenants/workspace-settings.ts'
import type { PinnedDefinitions } from '../remote/definitions.ts'
import { drifted, pinTools, shownProblem, withoutSecrets } from '../remote/mcp/mcp.ts'
import { callUpstreamTool, listUpstreamTools, type Peer } from '../remote/mcp/mcp-client.ts'
import { outputOf } from '../remote/mcp/mcp-output.ts'
import { redactorOf } from '../remote/source-headers.ts'
import type { RemoteSource, SourceKind } from '../remote/source-kind.ts'
import { storeRead } from '../remote/source-store.ts'
import { imageServersOf } from './image-servers.ts'
import { type EnvChoices, type ImageSettings, requireLine } from './image-settings.ts'

export const containerImage: SourceKind = {
  read: async (scope, source) => {
    await requireFeature(scope, 'mcp.images')
    await imageServersOf(scope).check(settingsOf(source).reference)
    return withServer(scope, source, new AbortController().signal, (peer) => readTools(scope, source, peer))
  },
  call: async (scope, source, { definition, args, waiting: { signal } }) => {
    await requireFeature(scope, 'mcp.images')
    return withServer(scope, source, signal, async (peer, redact) => {
      // The process that lists the tools is the one that is called.
      const read = await readTools(scope, source, peer)
      if (source.state !== 'ready' || read.hash !== source.hash) await storeRead(scope, source, read)
      const hash = read.hashes.find(({ key }) => key === definition.key)?.hash
      if (hash !== definition.hash) throw drifted(source, definition.key, hash === undefined)
      const reply = await callUpstreamTool(peer, { name: definition.key, args })
      const hasSchema = Object.hasOwn(definition.call, 'output_schema')
      return withoutSecrets(outputOf(reply, hasSchema), { redact })
    })
  },
}

function settingsOf({ image }: RemoteSource): ImageSettings {
  if (image === null) throw new TypeError('a source of the kind image must have image settings')
  return image
}

const readTools = async (
  scope: WorkspaceScope,
  source: RemoteSource,
  peer: Peer,
): Promise<PinnedDefinitions> => pinTools(scope, source, await listUpstreamTools(peer))

type Redact = (text: string) => string

/** @throws Problem whose texts have no secrets of the source: it may be stored and shown */
async function withServer<T>(
  scope: WorkspaceScope,
  source: RemoteSource,
  signal: AbortSignal,
  work: (peer: Peer, redact: Redact) => Promise<T>,
): Promise<T> {
  const { reference, command_args, env: choices, limits } = settingsOf(source)
  const { env, redact } = await resolveEnv(scope, choices)
  const owner = { ...scope.ref, source: source.id }
  const start = { image: reference, commandArgs: command_args, env, limits, owner }
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(timedOut(limits.timeout_seconds)), limits.timeout_seconds * 1_000)
  return imageServersOf(scope)
    .use(start, AbortSignal.any([signal, late.signal]), (peer) => work(peer, redact))
    .catch(shownProblem((text) => redactText(redact(text))))
    .finally(() => clearTimeout(timer))
}

/**
 * Reads the current values of the variables.
 * @returns them, and a function that takes their secrets out of a text
 * @throws Problem `state_conflict` if a secret does not exist, or is more than one line
 */
async function resolveEnv(
  scope: WorkspaceScope,
  choices: EnvChoices,
): Promise<{ readonly env: Record<string, string>; readonly redact: Redact }> {
  const names = Object.values(choices).flatMap((choice) => ('secret' in choice ? [choice.secret] : []))
  const values = names.length === 0 ? new Map<string, unknown>() : await readSecretValues(scope, names)
  const secrets = names.map((name) => requireLine(name, values.get(name)))
  const env = Object.fromEntries(
    Object.entries(choices).map(([name, choice]) => [
      name,
      'secret' in choice ? String(values.get(choice.secret)) : choice.value,
    ]),
  )
  return { env, redact: redactorOf(secrets) }
}

const timedOut = (seconds: number) =>
  new Problem('upstream_timeout', {
    detail: `The MCP server of the image has not answered within ${seconds} s, with the start of its container.`,
  })
