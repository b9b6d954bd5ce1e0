// How requests and answers of object stores look. Each dialect says what a request asks for, and writes pages of
// listings and errors:
//
//   s3   https://docs.aws.amazon.com/AmazonS3/latest/API/                          ListObjectsV2, GetObject, If-Match
//   gs   https://cloud.google.com/storage/docs/json_api/v1                         objects.list, alt=media, generation
//   az   https://learn.microsoft.com/rest/api/storageservices/blob-service-rest-api  List Blobs, Get Blob, If-Match

const xml = (text) =>
  String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
const document = (body) => `<?xml version="1.0" encoding="UTF-8"?>\n${body}`;

const s3 = {
  etag: (digest) => `"${digest}"`,
  asked({ pathname, searchParams }, headers) {
    const [, bucket = "", ...rest] = decodeURIComponent(pathname).split("/");
    if (searchParams.get("list-type") !== "2") {
      return {
        kind: "read",
        bucket,
        key: rest.join("/"),
        etag: headers["if-match"],
        range: headers.range,
      };
    }
    return {
      kind: "list",
      bucket,
      prefix: searchParams.get("prefix") ?? "",
      isByFolder: searchParams.get("delimiter") === "/",
      from: searchParams.get("continuation-token"),
    };
  },
  page({ bucket, page, next }) {
    const entries = page.map(({ folder, key, bytes, etag }) =>
      folder === undefined
        ? `<Contents><Key>${xml(key)}</Key><Size>${bytes}</Size><ETag>${xml(etag)}</ETag></Contents>`
        : `<CommonPrefixes><Prefix>${xml(folder)}</Prefix></CommonPrefixes>`,
    );
    const token =
      next === undefined ? "" : `<NextContinuationToken>${next}</NextContinuationToken>`;
    const head = `<Name>${bucket}</Name><IsTruncated>${next !== undefined}</IsTruncated>${token}`;
    return {
      type: "application/xml",
      body: document(`<ListBucketResult>${head}${entries.join("")}</ListBucketResult>`),
    };
  },
  error: (_, code) => ({
    type: "application/xml",
    body: document(`<Error><Code>${code}</Code><Message>${code}</Message></Error>`),
  }),
  refusals: new Map([
    ["slow down", [503, "SlowDown"]],
    ["denied", [403, "AccessDenied"]],
    ["unknown key", [403, "InvalidAccessKeyId"]],
    ["wrong secret", [403, "SignatureDoesNotMatch"]],
    ["expired", [400, "ExpiredToken"]],
    ["skewed", [403, "RequestTimeTooSkewed"]],
    ["broken", [500, "InternalError"]],
    ["no bucket", [404, "NoSuchBucket"]],
    ["no key", [404, "NoSuchKey"]],
    ["replaced", [412, "PreconditionFailed"]],
  ]),
};

const gs = {
  // Generations are numbers.
  etag: (digest) => String(BigInt(`0x${digest.slice(0, 12)}`)),
  asked({ pathname, searchParams }, headers) {
    // Emulators are reached with and without the version of the API.
    const [, bucket = "", , key] = /\/b\/([^/]+)\/o(\/(.*))?$/.exec(pathname) ?? [];
    if (key !== undefined) {
      return {
        kind: "read",
        bucket,
        key: decodeURIComponent(key),
        etag: searchParams.get("generation") ?? undefined,
        range: headers.range,
      };
    }
    return {
      kind: "list",
      bucket,
      prefix: searchParams.get("prefix") ?? "",
      isByFolder: searchParams.get("delimiter") === "/",
      from: searchParams.get("pageToken"),
    };
  },
  page({ page, next }) {
    const items = page
      .filter(({ key }) => key !== undefined)
      .map(({ key, bytes, etag }) => ({ name: key, size: String(bytes), generation: etag }));
    const prefixes = page.map(({ folder }) => folder).filter((folder) => folder !== undefined);
    const body = JSON.stringify({ items, prefixes, nextPageToken: next });
    return { type: "application/json", body };
  },
  error: (status, code) => ({
    type: "application/json",
    body: JSON.stringify({
      error: { code: status, message: code, errors: [{ reason: code, message: code }] },
    }),
  }),
  refusals: new Map([
    ["slow down", [503, "backendError"]],
    ["denied", [403, "forbidden"]],
    ["wrong secret", [401, "authError"]],
    ["broken", [500, "internalError"]],
    ["no bucket", [404, "notFound"]],
    ["no key", [404, "notFound"]],
    // Of an object whose generation has gone.
    ["replaced", [404, "notFound"]],
  ]),
};

const az = {
  etag: (digest) => `"0x${digest.slice(0, 15).toUpperCase()}"`,
  asked({ pathname, searchParams }, headers) {
    const [, , bucket = "", ...rest] = decodeURIComponent(pathname).split("/");
    if (searchParams.get("comp") !== "list") {
      return {
        kind: "read",
        bucket,
        key: rest.join("/"),
        etag: headers["if-match"],
        range: headers["x-ms-range"] ?? headers.range,
      };
    }
    return {
      kind: "list",
      bucket,
      prefix: searchParams.get("prefix") ?? "",
      isByFolder: searchParams.get("delimiter") === "/",
      from: searchParams.get("marker"),
    };
  },
  page({ bucket, page, next = "" }) {
    const entries = page.map(({ folder, key, bytes, etag }) => {
      if (folder !== undefined) return `<BlobPrefix><Name>${xml(folder)}</Name></BlobPrefix>`;
      const properties = `<Content-Length>${bytes}</Content-Length><Etag>${xml(etag)}</Etag><BlobType>BlockBlob</BlobType>`;
      return `<Blob><Name>${xml(key)}</Name><Properties>${properties}</Properties></Blob>`;
    });
    const blobs = `<Blobs>${entries.join("")}</Blobs><NextMarker>${next}</NextMarker>`;
    return {
      type: "application/xml",
      body: document(
        `<EnumerationResults ContainerName="${xml(bucket)}">${blobs}</EnumerationResults>`,
      ),
    };
  },
  error: (_, code) => ({
    type: "application/xml",
    headers: { "x-ms-error-code": code },
    body: document(`<Error><Code>${code}</Code><Message>${code}</Message></Error>`),
  }),
  refusals: new Map([
    ["slow down", [503, "ServerBusy"]],
    ["denied", [403, "AuthorizationPermissionMismatch"]],
    ["wrong secret", [403, "AuthenticationFailed"]],
    ["broken", [500, "InternalError"]],
    ["no bucket", [404, "ContainerNotFound"]],
    ["no key", [404, "BlobNotFound"]],
    ["replaced", [412, "ConditionNotMet"]],
  ]),
};

/** By the scheme of URLs. */
export const DIALECTS = { s3, gs, az };
