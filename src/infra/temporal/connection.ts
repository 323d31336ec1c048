/**
 * How the platform reaches Temporal: the variables and profiles that all programs of Temporal share (environment configuration), with TLS,
 * client certificates and API keys.
 */

import type { ConnectionOptions } from '@temporalio/client'
import { loadClientConnectConfig } from '@temporalio/envconfig'
import Type from 'typebox'
import { Value } from 'typebox/value'
import { readSecretFile, withSecretFiles } from '../crypto/setting-files.ts'
import { isLoopback } from '../loopback.ts'

type Environment = Readonly<Record<string, string | undefined>>

export interface TemporalAddress {
  readonly address: string
  readonly namespace: string
  /** For the connections of clients and workers. */
  readonly connection: Pick<ConnectionOptions, 'address' | 'tls' | 'metadata'>
  /** The API key as it is now. Undefined if there is none. */
  readonly apiKey: (() => string) | undefined
}

const ADDRESS = /^[^/]+:[0-9]+$/
const TLS_DESCRIPTION =
  'True for TLS, which an API key and any other TEMPORAL_TLS_… setting turn on, too; false for none, which is refused beside such a setting.'
/** Its texts are those of all settings that are true or false. */
export const TLS_SETTING = Type.Boolean({ description: TLS_DESCRIPTION })
/** A key in a file is read again, at most so often. */
const RELOAD_MS = 5_000

/**
 * Reads the settings TEMPORAL_…: those of the environment, else those of the profile.
 * @throws Error with a sentence that names the setting, and shows no value
 */
export function readTemporal(environment: Environment): TemporalAddress {
  const { connectionOptions, namespace = 'default' } = load(environment)
  const { address, tls, metadata, apiKey } = connectionOptions
  if (address === undefined || !ADDRESS.test(address))
    throw new Error(
      `TEMPORAL_ADDRESS is ${address === undefined ? 'missing' : 'not valid'}. host:port of Temporal.`,
    )
  if (!tls)
    checkPlaintext(environment, {
      address,
      isOff: tls === false,
      sends: apiKey ?? metadata?.['authorization'],
    })
  return {
    ...{ address, namespace },
    connection: { address, ...(tls !== undefined && { tls }), ...(metadata && { metadata }) } as const,
    apiKey: apiKey === undefined ? undefined : keptUpToDate(apiKey, environment),
  }
}

interface Plaintext {
  readonly address: string
  /** By a setting or the profile, and not only for want of one. */
  readonly isOff: boolean
  /** The credential of each request. */
  readonly sends: unknown
}

/** @throws Error if settings of TLS would have no effect, or a credential would be sent readably over a network without anyone having said so */
function checkPlaintext(environment: Environment, { address, isOff, sends }: Plaintext): void {
  const isMeant = tlsOf(environment) === false
  const useless = Object.keys(environment).filter(
    (name) => name.startsWith('TEMPORAL_TLS_') && environment[name],
  )
  if (isOff && useless.length > 0) {
    const reason = isMeant ? 'TEMPORAL_TLS is false' : 'the profile of TEMPORAL_CONFIG_FILE turns TLS off'
    throw new Error(
      `There would be no TLS in spite of ${useless.join(', ')}: ${reason}. Unset what is wrong.`,
    )
  }
  if (sends !== undefined && !isMeant && !isLoopback(`http://${address}`))
    throw new Error(
      'The credential for Temporal would be sent without TLS. Set TEMPORAL_TLS to true, or to false if only machines that you trust can read it.',
    )
}

/** Undefined if it is not set. envconfig takes all texts but `1` and `true` for false, and would turn TLS off for `True`. */
function tlsOf({ TEMPORAL_TLS: text }: Environment): boolean | undefined {
  if (!text) return undefined
  const value = Value.Convert(TLS_SETTING, text)
  if (Value.Check(TLS_SETTING, value)) return value
  throw new Error(`TEMPORAL_TLS must be boolean. ${TLS_DESCRIPTION}`)
}

/** Options of a client's connection, which asks for the key at each request. */
export const clientOptions = ({ connection, apiKey }: TemporalAddress): ConnectionOptions => ({
  ...connection,
  ...(apiKey && { apiKey }),
})

/** Reads it again when it is asked for; while the file cannot be read, since it is being replaced, the key stays. */
function keptUpToDate(first: string, environment: Environment): () => string {
  const isInFile = Boolean(environment['TEMPORAL_API_KEY_FILE'] || environment['TEMPORAL_CONFIG_FILE'])
  let key = first
  let readMs = performance.now()
  return () => {
    if (!isInFile || performance.now() - readMs < RELOAD_MS) return key
    readMs = performance.now()
    try {
      key = load(environment).connectionOptions.apiKey ?? key
    } catch {}
    return key
  }
}

function load(environment: Environment) {
  const { env, faults } = withSecretFiles(environment, ['TEMPORAL_API_KEY'])
  for (const fault of faults.values()) throw new Error(fault)
  const { TEMPORAL_CONFIG_FILE: path, TEMPORAL_PROFILE: profile } = env
  if (!path && profile) throw new Error('TEMPORAL_PROFILE has no effect without TEMPORAL_CONFIG_FILE.')
  const tls = tlsOf(env)
  const settings = { ...env, ...(tls !== undefined && { TEMPORAL_TLS: String(tls) }) }
  const given = Object.entries(settings).flatMap(([name, value]) =>
    name.startsWith('TEMPORAL_') && value ? [[name, value] as const] : [],
  )
  const data = path && readSecretFile('TEMPORAL_CONFIG_FILE', path)
  try {
    return loadClientConnectConfig({
      overrideEnvVars: Object.fromEntries(given),
      configFileStrict: true,
      // Otherwise a file in the home folder would be read, which belongs to a person.
      ...(data ? { configSource: { data } } : { disableFile: true }),
    })
  } catch (error) {
    throw new Error(`${path ? 'TEMPORAL_CONFIG_FILE' : 'TEMPORAL_TLS_…'} cannot be used. ${reasonOf(error)}`)
  }
}

/** The first line: the others of an error of TOML are lines of the file. */
const reasonOf = (error: unknown): string =>
  `${(((error as Error).message ?? '').split('\n')[0] ?? '').replace(/\.$/, '')}.`
