/** Provides Python with boto3, the AWS CLI and rclone: those on the path, or those that are installed below `.tenon`. */

import { execFile } from 'node:child_process'
import { mkdir, readdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)
const FOLDER = resolve('.tenon/s3-clients')

export interface Programs {
  readonly python: string
  readonly aws: string
  readonly rclone: string
}

const works = (program: string, ...args: string[]): Promise<boolean> =>
  execute(program, args).then(
    () => true,
    () => false,
  )

/** @throws Error with the reason why one is missing */
export async function findPrograms(): Promise<Programs> {
  return { ...(await findPython()), rclone: await findRclone() }
}

async function findPython(): Promise<Pick<Programs, 'python' | 'aws'>> {
  const hasBoto3 = (python: string) => works(python, '-c', 'import boto3')
  if ((await hasBoto3('python3')) && (await works('aws', '--version')))
    return { python: 'python3', aws: 'aws' }
  const bin = join(FOLDER, 'python/bin')
  const own = { python: join(bin, 'python'), aws: join(bin, 'aws') }
  if ((await hasBoto3(own.python)) && (await works(own.aws, '--version'))) return own
  await execute('python3', ['-m', 'venv', join(FOLDER, 'python')])
  await execute(own.python, ['-m', 'pip', 'install', '--quiet', 'boto3', 'awscli'])
  return own
}

async function findRclone(): Promise<string> {
  if (await works('rclone', 'version')) return 'rclone'
  const own = join(FOLDER, 'debian/usr/bin/rclone')
  if (await works(own, 'version')) return own
  const cwd = join(FOLDER, 'debian')
  await mkdir(cwd, { recursive: true })
  await execute('apt-get', ['download', 'rclone'], { cwd }).catch((error: Error) => {
    throw new Error(
      `rclone is not on the path, and the package of Debian cannot be downloaded: ${error.message.trim()}. Install it with \`apt-get install rclone\`.`,
    )
  })
  const file = (await readdir(cwd)).find((name) => name.endsWith('.deb')) ?? ''
  await execute('dpkg-deb', ['-x', file, '.'], { cwd })
  return own
}
