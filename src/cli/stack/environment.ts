/** The environment of a command, with the secrets that it has in files. */

import { ConfigError, isSetting, SECRET_SETTINGS } from '../../infra/config.ts'
import { withSecretFiles } from '../../infra/crypto/setting-files.ts'

/**
 * Secrets may be in files (`<NAME>_FILE`): those of API and worker, and all settings of the CLI.
 * @param pathOf resolves the path of a file
 * @throws ConfigError with a sentence for each file that cannot be used
 */
export function readEnvironment(pathOf: (file: string) => string): NodeJS.ProcessEnv {
  const names = Object.keys(process.env).flatMap(secretOf)
  const { env, faults } = withSecretFiles(process.env, names, pathOf)
  if (faults.size > 0) throw new ConfigError([...faults.values()])
  return env
}

/** The setting of which this variable names the file; none if it is a setting itself, or no variable of Tenon. */
function secretOf(variable: string): string[] {
  const [, name] = /^(.+)_FILE$/.exec(variable) ?? []
  const isOurs = name !== undefined && (SECRET_SETTINGS.includes(name) || /^(TENON|DATABASE)_/.test(name))
  return isOurs && !isSetting(variable) ? [name] : []
}
