/** The kinds of sources outside the platform. */

import { containerImage } from '../images/image-source.ts'
import { mcpServer } from './mcp/mcp.ts'
import { openApi } from './openapi/openapi.ts'
import type { RemoteSource, SourceKind } from './source-kind.ts'

const KINDS: Readonly<Record<RemoteSource['kind'], SourceKind>> = {
  openapi: openApi,
  mcp: mcpServer,
  image: containerImage,
}

export const kindOf = ({ kind }: Pick<RemoteSource, 'kind'>): SourceKind => KINDS[kind]
