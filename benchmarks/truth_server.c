// A streaming server that knows when it sent each token: the ground truth of the benchmark.
//
//   truth_server TTFT_US ITL_US TOKENS LOG_FILE
//
// Listens on a free loopback port and prints it. Serves POST .../chat/completions and .../completions as server-sent
// events, one chunk and one send() a token, and a list of its one model. "max_tokens" in the body overrides TOKENS.
// SIGTERM ends it. LOG_FILE gets a row per finished request, in Unix nanoseconds, gaps in microseconds:
//
//   request_id,received_ns,first_ns,last_ns,late_ns,gaps_us
//
// received_ns is the kernel's receive time of the request, so that this server's own delays are not the client's; tokens
// are due at received + TTFT + n * ITL and stamped just before their send(); late_ns is the longest that one was overdue.
//
// One thread and one epoll. Every stream has the same TTFT and ITL, so that what is due next is at the head of one of two
// queues that are in order by themselves: first tokens, and later ones. No heap is needed.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FDS = 65536, MAX_TOKENS = 8192, IN_BYTES = 65536, ID_BYTES = 96, BATCH = 256, STAMP_OPTION = 35 };
#define NS_PER_S 1000000000LL

typedef struct {
  bool streaming, chat;
  uint32_t generation;  // of the descriptor: what is queued for an earlier connection is not for this one
  int in_length, tokens, sent;
  int64_t received, first, last, late;
  int32_t *gaps;
  char id[ID_BYTES];
  char *out;  // what the socket did not take
  size_t out_length, out_size;
  char in[IN_BYTES];
} Connection;

typedef struct {
  int64_t due;
  int fd;
  uint32_t generation;
} Due;

typedef struct {
  Due *items;
  size_t head, tail, size;  // size is a power of two
} Queue;

static Connection *connections[MAX_FDS];
static uint32_t generations[MAX_FDS];
static Queue first_tokens, later_tokens;
static int64_t ttft, itl;
static int default_tokens, poller;
static long serial;
static FILE *log_file;
static volatile sig_atomic_t ended;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void push(Queue *q, Due item) {
  if (q->tail - q->head == q->size) {
    size_t size = q->size ? 2 * q->size : 4096;
    Due *items = malloc(size * sizeof *items);
    for (size_t i = q->head; i != q->tail; i++) items[i & (size - 1)] = q->items[i & (q->size - 1)];
    free(q->items);
    q->items = items;
    q->size = size;
  }
  q->items[q->tail++ & (q->size - 1)] = item;
}

static Due *head(Queue *q) { return q->head == q->tail ? NULL : &q->items[q->head & (q->size - 1)]; }

static Queue *earliest(void) {
  Due *a = head(&first_tokens), *b = head(&later_tokens);
  return !a ? &later_tokens : !b ? &first_tokens : a->due <= b->due ? &first_tokens : &later_tokens;
}

static void watch(int fd, int operation, uint32_t events) {
  struct epoll_event event = {.events = events, .data.fd = fd};
  epoll_ctl(poller, operation, fd, &event);
}

static void drop(int fd) {
  Connection *c = connections[fd];
  free(c->gaps);
  free(c->out);
  free(c);
  connections[fd] = NULL;
  generations[fd]++;
  close(fd);
}

static void say(int fd, const char *data, size_t length) {
  Connection *c = connections[fd];
  ssize_t taken = c->out_length ? 0 : send(fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (taken < 0) taken = 0;  // full for now; a broken connection shows when it is read
  if ((size_t)taken == length) return;
  size_t left = length - taken;
  if (c->out_length + left > c->out_size) c->out = realloc(c->out, c->out_size = 2 * (c->out_length + left));
  memcpy(c->out + c->out_length, data + taken, left);
  c->out_length += left;
  watch(fd, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
}

static void say_rest(int fd) {
  Connection *c = connections[fd];
  ssize_t taken = send(fd, c->out, c->out_length, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (taken > 0) memmove(c->out, c->out + taken, c->out_length -= taken);
  if (!c->out_length) watch(fd, EPOLL_CTL_MOD, EPOLLIN);
}

static void page(int fd, const char *status, const char *body) {
  char text[1024];
  int length = snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                        status, strlen(body), body);
  say(fd, text, length);
}

static int chunk(char *to, const char *event) { return sprintf(to, "%zx\r\n%s\r\n", strlen(event), event); }

static void start(int fd, int64_t received, const char *head_text, const char *body) {
  Connection *c = connections[fd];
  if (strncmp(head_text, "POST ", 5)) {
    if (strstr(head_text, "/models ")) page(fd, "200 OK", "{\"object\":\"list\",\"data\":[{\"id\":\"truth\",\"object\":\"model\"}]}");
    else page(fd, strstr(head_text, "/health ") ? "200 OK" : "404 Not Found", "{}");
    return;
  }
  static const char answer[] =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
  c->chat = strstr(head_text, "chat/completions") != NULL;
  c->tokens = default_tokens;
  const char *asked = strstr(body, "\"max_tokens\":");
  if (asked && atoi(asked + 13) > 0) c->tokens = atoi(asked + 13);
  if (c->tokens > MAX_TOKENS) c->tokens = MAX_TOKENS;
  c->id[0] = 0;
  const char *id = strcasestr(head_text, "\r\nX-Request-Id:");
  if (id) sscanf(id + 15, " %95[^ \r\n,]", c->id);
  c->received = received;
  c->sent = 0;
  c->late = 0;
  c->streaming = true;
  if (!c->gaps) c->gaps = malloc(MAX_TOKENS * sizeof *c->gaps);
  say(fd, answer, sizeof answer - 1);
  serial++;
  push(&first_tokens, (Due){received + ttft, fd, generations[fd]});
}

static void finish(int fd) {
  Connection *c = connections[fd];
  char event[512], text[2048];
  int n = 0;
  snprintf(event, sizeof event, "data: {\"id\":\"chatcmpl-%08lx\",\"object\":\"%s\",\"created\":1790000000,\"model\":\"truth\","
           "\"choices\":[{\"index\":0,%s,\"finish_reason\":\"length\"}]}\n\n", serial,
           c->chat ? "chat.completion.chunk" : "text_completion", c->chat ? "\"delta\":{}" : "\"text\":\"\"");
  n += chunk(text + n, event);
  snprintf(event, sizeof event, "data: {\"id\":\"chatcmpl-%08lx\",\"choices\":[],\"usage\":{\"prompt_tokens\":64,"
           "\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n", serial, c->tokens, c->tokens + 64);
  n += chunk(text + n, event);
  n += chunk(text + n, "data: [DONE]\n\n");
  n += sprintf(text + n, "0\r\n\r\n");
  say(fd, text, n);
  c->streaming = false;
  fprintf(log_file, "%s,%lld,%lld,%lld,%lld,", c->id, (long long)c->received, (long long)c->first, (long long)c->last,
          (long long)c->late);
  for (int i = 0; i < c->tokens - 1; i++) fprintf(log_file, i ? " %d" : "%d", c->gaps[i]);
  fputc('\n', log_file);
}

static void token(Due due) {
  Connection *c = connections[due.fd];
  if (!c || generations[due.fd] != due.generation || !c->streaming) return;
  char event[512], text[640];
  snprintf(event, sizeof event, c->chat
           ? "data: {\"id\":\"chatcmpl-%08x\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"truth\","
             "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word%d\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n"
           : "data: {\"id\":\"cmpl-%08x\",\"object\":\"text_completion\",\"created\":1790000000,\"model\":\"truth\","
             "\"choices\":[{\"index\":0,\"text\":\" word%d\",\"logprobs\":null,\"finish_reason\":null}]}\n\n",
           (unsigned)(c->received / 1000), c->sent);
  int length = chunk(text, event);
  int64_t t = now();
  say(due.fd, text, length);
  if (t - due.due > c->late) c->late = t - due.due;
  if (c->sent == 0) c->first = t;
  else c->gaps[c->sent - 1] = (t - c->last) / 1000;
  c->last = t;
  if (++c->sent < c->tokens) push(&later_tokens, (Due){due.due + itl, due.fd, due.generation});
  else finish(due.fd);
}

static int64_t receive(int fd) {  // the kernel's receive time; 0 when the connection is to be dropped
  Connection *c = connections[fd];
  char control[64];
  struct iovec vector = {c->in + c->in_length, IN_BYTES - 1 - c->in_length};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t length = recvmsg(fd, &message, MSG_DONTWAIT);
  if (length < 0 && errno == EAGAIN) return now();
  if (length <= 0) return 0;
  c->in[c->in_length += length] = 0;
  struct cmsghdr *stamp = CMSG_FIRSTHDR(&message);
  if (!stamp) return now();
  struct timespec t;
  memcpy(&t, CMSG_DATA(stamp), sizeof t);
  return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void readable(int fd) {
  Connection *c = connections[fd];
  int64_t received = receive(fd);
  if (!received) {
    drop(fd);
    return;
  }
  char *end = strstr(c->in, "\r\n\r\n");  // one request at a time: nobody pipelines here
  if (!end || c->streaming) return;
  char *length = strcasestr(c->in, "\r\nContent-Length:");
  char *body = end + 4;
  if (length && length < end && c->in + c->in_length < body + atoi(length + 17)) return;
  *end = 0;
  start(fd, received, c->in, body);
  c->in[c->in_length = 0] = 0;
}

static void welcome(int listener) {
  int fd, yes = 1;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
    if (fd >= MAX_FDS) {
      close(fd);
      continue;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, STAMP_OPTION, &yes, sizeof yes);
    connections[fd] = calloc(1, sizeof(Connection));
    watch(fd, EPOLL_CTL_ADD, EPOLLIN);
  }
}

static void on_signal(int signal_number) {
  (void)signal_number;
  ended = 1;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: truth_server TTFT_US ITL_US TOKENS LOG_FILE\n");
    return 2;
  }
  ttft = atoll(argv[1]) * 1000;
  itl = atoll(argv[2]) * 1000;
  default_tokens = atoi(argv[3]);
  log_file = fopen(argv[4], "w");
  if (!log_file) {
    perror(argv[4]);
    return 1;
  }
  fprintf(log_file, "request_id,received_ns,first_ns,last_ns,late_ns,gaps_us\n");
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  prctl(PR_SET_TIMERSLACK, 1);
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);

  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t address_length = sizeof address;
  if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096) ||
      getsockname(listener, (void *)&address, &address_length)) {
    perror("listen");
    return 1;
  }
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);

  poller = epoll_create1(0);
  int timer = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
  watch(listener, EPOLL_CTL_ADD, EPOLLIN);
  watch(timer, EPOLL_CTL_ADD, EPOLLIN);
  int64_t armed = 0;
  struct epoll_event events[BATCH];
  while (!ended) {
    Due *next = head(earliest());
    bool overdue = next && next->due <= now();
    if (next && !overdue && next->due != armed) {
      armed = next->due;
      struct itimerspec at = {.it_value = {armed / NS_PER_S, armed % NS_PER_S}};
      timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
    }
    int count = epoll_wait(poller, events, BATCH, overdue ? 0 : 500);
    for (int i = 0; i < count; i++) {
      int fd = events[i].data.fd;
      if (fd == listener) welcome(listener);
      else if (fd == timer) {
        uint64_t expirations;
        if (read(timer, &expirations, sizeof expirations) > 0) armed = 0;
      } else {
        if (connections[fd] && events[i].events & EPOLLOUT) say_rest(fd);
        if (connections[fd] && events[i].events & ~EPOLLOUT) readable(fd);
      }
    }
    for (int burst = 0; burst < BATCH; burst++) {
      Queue *q = earliest();
      if (!head(q) || head(q)->due > now()) break;
      Due due = *head(q);
      q->head++;
      token(due);
    }
  }
  fclose(log_file);
  return 0;
}
