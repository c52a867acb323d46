/* SPDX-License-Identifier: BSD-3-Clause */
/* gssnfs HOST CONTEXTPORT DATAPORT MOUNTPORT EXPORT SERVICE: an NFSv3 client by RPCSEC_GSS (SERVICE: krb5, krb5i,
 * krb5p; the server is nfs@server.lab), or without (sys). Makes its context on one connection and uses it on another one, to another port
 * (RFC 8267 §8.2.2.1) unless the ports are the same. Writes a file in blocks of several sizes, reads it, compares.
 * Prints the result, and on stderr the number of calls to DATAPORT; if that is CONTEXTPORT too, of all. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rpc/rpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NFS = 100003, MOUNT = 100005, VERS3 = 3, MNT = 1, READ = 6, WRITE = 7, CREATE = 8 };
enum { FH_MAX = 64, BLOCK_MAX = 60000, PRE_ATTR = 24, ATTR = 84 };

/* As <rpc/rpcsec_gss.h> has it, which does not go without GSS-API's headers. */
extern AUTH *rpc_gss_seccreate(CLIENT *, char *principal, char *mechanism, int service, char *qop, void *, void *);

struct fh {
	u_int len;
	char data[FH_MAX];
};

/* Arguments and results of all procedures. */
struct op {
	struct fh fh;
	char *name;
	uint64_t offset;
	u_int count, status;
	char data[BLOCK_MAX];
};

static unsigned int ncalls;

static bool_t xdr_fh(XDR *x, struct fh *fh)
{
	char *p = fh->data;

	return xdr_bytes(x, &p, &fh->len, FH_MAX);
}

/* Something optional that is of no interest. */
static bool_t skip(XDR *x, u_int size)
{
	char buf[ATTR];
	bool_t there;

	return xdr_bool(x, &there) && (!there || xdr_opaque(x, buf, size));
}

static bool_t put_name(XDR *x, struct op *op)
{
	return xdr_string(x, &op->name, 1024);
}

static bool_t put_create(XDR *x, struct op *op)
{
	u_int rest[] = { 0 /* UNCHECKED */, 1, 0644, 0, 0, 0, 0, 0 };

	return xdr_fh(x, &op->fh) && put_name(x, op) &&
	       xdr_vector(x, (char *)rest, 8, sizeof(u_int), (xdrproc_t)(void *)xdr_u_int);
}

static bool_t put_read(XDR *x, struct op *op)
{
	return xdr_fh(x, &op->fh) && xdr_uint64_t(x, &op->offset) && xdr_u_int(x, &op->count);
}

static bool_t put_write(XDR *x, struct op *op)
{
	u_int stable = 2;
	char *p = op->data;

	return put_read(x, op) && xdr_u_int(x, &stable) && xdr_bytes(x, &p, &op->count, BLOCK_MAX);
}

static bool_t get_mnt(XDR *x, struct op *op)
{
	return xdr_u_int(x, &op->status) && (op->status || xdr_fh(x, &op->fh));
}

static bool_t get_create(XDR *x, struct op *op)
{
	bool_t there;

	return xdr_u_int(x, &op->status) && (op->status || (xdr_bool(x, &there) && there && xdr_fh(x, &op->fh)));
}

static bool_t get_write(XDR *x, struct op *op)
{
	return xdr_u_int(x, &op->status) && skip(x, PRE_ATTR) && skip(x, ATTR) &&
	       (op->status || xdr_u_int(x, &op->count));
}

static bool_t get_read(XDR *x, struct op *op)
{
	char *p = op->data;
	bool_t eof;

	return xdr_u_int(x, &op->status) && skip(x, ATTR) &&
	       (op->status || (xdr_u_int(x, &op->count) && xdr_bool(x, &eof) &&
			       xdr_bytes(x, &p, &op->count, BLOCK_MAX)));
}

static CLIENT *open_client(const char *host, const char *port, u_long prog)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((in_port_t)atoi(port)) };
	int fd = RPC_ANYSOCK;
	CLIENT *c;

	inet_pton(AF_INET, host, &a.sin_addr);
	c = clnttcp_create(&a, prog, VERS3, &fd, 0, 0);
	if (!c) {
		clnt_pcreateerror("gssnfs");
		exit(2);
	}
	return c;
}

typedef bool_t xdr_op(XDR *, struct op *);

static void ask(CLIENT *c, rpcproc_t proc, xdr_op *put, xdr_op *get, struct op *op)
{
	struct timeval limit = { 20, 0 };

	ncalls++;
	if (clnt_call(c, proc, (xdrproc_t)(void *)put, op, (xdrproc_t)(void *)get, op, limit) != RPC_SUCCESS) {
		clnt_perror(c, "gssnfs");
		exit(1);
	}
	if (op->status) {
		fprintf(stderr, "gssnfs: procedure %u: status %u\n", (unsigned)proc, op->status);
		exit(1);
	}
}

static int service_of(const char *name)
{
	return !strcmp(name, "krb5p") ? 3 : !strcmp(name, "krb5i") ? 2 : 1;
}

static void fill(char *p, u_int n, u_int seed)
{
	for (u_int i = 0; i < n; i++)
		p[i] = (char)(i * 31 + (i >> 9) + seed);
}

int main(int argc, char **argv)
{
	static const u_int sizes[] = { 1, 7, 1000, 4001, 8192, 30000, BLOCK_MAX };
	static char want[BLOCK_MAX];
	static struct op op;
	CLIENT *data, *mnt;
	struct fh file;
	uint64_t at = 0;
	int same = 1;

	if (argc != 7)
		return 64;
	mnt = open_client(argv[1], argv[4], MOUNT);
	mnt->cl_auth = authunix_create_default();
	op.name = argv[5];
	ask(mnt, MNT, put_name, get_mnt, &op);
	data = open_client(argv[1], argv[3], NFS);
	data->cl_auth = !strcmp(argv[6], "sys") ? authunix_create_default() :
		rpc_gss_seccreate(open_client(argv[1], argv[2], NFS), (char[]){ "nfs@server.lab" },
				  (char[]){ "kerberos_v5" }, service_of(argv[6]), NULL, NULL, NULL);
	if (!data->cl_auth) {
		clnt_pcreateerror("gssnfs: GSS");
		return 2;
	}
	ncalls = strcmp(argv[2], argv[3]) ? 0 : ncalls + !!strcmp(argv[6], "sys");
	op.name = argv[6];
	ask(data, CREATE, put_create, get_create, &op);
	file = op.fh;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); at += sizes[i++]) {
		op.fh = file;
		op.offset = at;
		op.count = sizes[i];
		fill(op.data, sizes[i], (u_int)i);
		ask(data, WRITE, put_write, get_write, &op);
	}
	at = 0;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); at += sizes[i++]) {
		op.fh = file;
		op.offset = at;
		op.count = sizes[i];
		ask(data, READ, put_read, get_read, &op);
		fill(want, sizes[i], (u_int)i);
		same &= op.count == sizes[i] && !memcmp(op.data, want, sizes[i]);
	}
	printf("gssnfs %s %u bytes %s\n", argv[6], (u_int)at, same ? "same" : "DIFFERENT");
	fprintf(stderr, "calls %u\n", ncalls);
	return !same;
}
